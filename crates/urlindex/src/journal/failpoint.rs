//! Failpoints: planted faults that the tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step left out or done in the wrong order.
    pub(crate) enum Failpoint {
        /// A commit syncs the set, but not the answers.
        AnswersNotSynced,
        /// The set takes the URLs before their answers are durable.
        SetBeforeAnswers,
        /// Keys are taken out of the journal before the set is synced.
        StrippedFirst,
        /// An answered request is not looked up: it is answered anew.
        AnsweredAnew,
        /// Recovery uses keys that may not be on the device.
        RecoveredUnsynced,
        /// A file of answers is removed before the ids it forgets are noted durably.
        ForgottenUnnoted,
    }
}
