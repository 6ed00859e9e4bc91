//! The description of the routes matches the server: the same paths, methods and parameters.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::served::served;

type Operations = BTreeMap<(String, String), BTreeSet<String>>;

/// Path, method and names of the query's parameters of each operation.
fn described(document: &Value) -> Operations {
    let mut found = Operations::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let parameters = operation["parameters"].as_array().expect("parameters");
            let of_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
            let names = of_query.map(|parameter| parameter["name"].as_str().expect("a name").to_owned()).collect();
            found.insert((path.clone(), method.to_uppercase()), names);
        }
    }
    found
}

/// Path and methods of each route, from the source.
fn routed() -> BTreeSet<(String, String)> {
    let source = include_str!("../src/server/routes.rs");
    let mut found = BTreeSet::new();
    for route in source.split(".route(\"").skip(1) {
        let (path, how) = route.split_once('"').expect("a path");
        let how = how.split(".fallback(").next().expect("handlers");
        for (word, methods) in [
            ("get(", &["GET"][..]),
            ("put(", &["PUT"]),
            ("post(", &["POST"]),
            ("delete(", &["DELETE"]),
            ("any(", &["GET", "POST"]),
        ] {
            if how.contains(&format!(" {word}")) || how.contains(&format!(".{word}")) {
                found.extend(methods.iter().map(|method| (path.replace("{*", "{"), (*method).to_owned())));
            }
        }
    }
    found
}

#[test]
fn the_description_has_the_servers_routes_and_their_parameters() {
    let server = served(&[]);
    let document = server.get("/v1/openapi.json", &[]).json();
    assert_eq!(document["openapi"], "3.1.0");
    let described = described(&document);
    let paths: BTreeSet<_> = described.keys().cloned().collect();
    assert_eq!(paths, routed());
    let mut checked = 0;
    for ((path, method), parameters) in &described {
        if path.contains('{') {
            continue;
        }
        let kind: &[&str] = if path == "/v1/pages" { &["Content-Type: application/x-ndjson"] } else { &[] };
        let answer = server.ask(method, &format!("{path}?no-such-parameter=1"), kind, b"");
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        // Routes without parameters do not parse a query.
        let Some((_, known)) = said.split_once("(known are: ") else {
            assert!(parameters.is_empty(), "{method} {path} takes no parameters: {said}");
            continue;
        };
        let known = known.split(')').next().expect("an end");
        let known: BTreeSet<String> = known.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        assert_eq!(*parameters, known, "{method} {path}");
        checked += 1;
    }
    assert!(checked > 12, "only {checked} operations said what they know");
}
