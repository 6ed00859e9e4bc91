//! todo words words words words words words words words
