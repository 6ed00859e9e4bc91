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
        /// An answered request is not looked for: it is answered anew.
        AnsweredAnew,
        /// What is recovered may not be on the device.
        RecoveredUnsynced,
        /// A file of answers goes before it is noted durably which ids are forgotten.
        ForgottenUnnoted,
    }
}
