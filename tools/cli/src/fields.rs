//! JSON objects of a struct's fields, for `--json`.

/// A JSON object of the named fields of a value; `name = value` adds any other field.
///
/// ```
/// struct Report { files: u64, bytes: u64 }
/// let report = Report { files: 2, bytes: 300 };
/// let line = fm_cli::fields!(report; files, bytes, is_complete = true);
/// assert_eq!(line.to_string(), r#"{"files":2,"bytes":300,"is_complete":true}"#);
/// ```
#[macro_export]
macro_rules! fields {
    ($of:ident; $($name:ident $(= $value:expr)?),+ $(,)?) => {{
        let mut fields = ::serde_json::Map::new();
        $(fields.insert(stringify!($name).to_owned(), $crate::fields!(@value $of $name $($value)?));)+
        ::serde_json::Value::Object(fields)
    }};
    (@value $of:ident $name:ident) => {
        ::serde_json::json!($of.$name)
    };
    (@value $of:ident $name:ident $value:expr) => {
        ::serde_json::json!($value)
    };
}
