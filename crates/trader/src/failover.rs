//! The rule for a client whose server is lost: run again, or not.
//!
//! Nothing runs twice. A batch is run again if it provably did not run, or if it is a named
//! transaction: then a server of the same store knows whether it was done.

/// The account of a batch whose answer is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    /// It did not begin.
    No,
    /// It began.
    Began,
    /// Nobody knows.
    Unknown,
}

/// The loss of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// There was no connection: connecting failed.
    NoConnection,
    /// The server refused before it ran anything: `TooManySessions`, `Busy`, `ShuttingDown`.
    Refused,
    /// The connection was lost, with the account of the batches under way.
    Lost(Ran),
}

/// The batches that a client has sent since it began, and whose effects would come twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// None.
    Nothing,
    /// One that is a named transaction.
    Named,
    /// Any others: one without a name, or several.
    Plain,
}

/// The next step of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Run again at the next offer.
    Again,
    /// Run again at the next offer with the same `store`.
    SameStore,
    /// Return the error.
    GiveUp,
}

/// Decides about a loss.
///
/// | loss | nothing sent | named | plain |
/// | --- | --- | --- | --- |
/// | no connection, refused, did not run | again | again | again |
/// | began, unknown | again | same store | give up |
pub fn next(loss: Loss, batch: Batch) -> Next {
    match (loss, batch) {
        (Loss::NoConnection | Loss::Refused | Loss::Lost(Ran::No), _) => Next::Again,
        (Loss::Lost(Ran::Began | Ran::Unknown), Batch::Nothing) => Next::Again,
        (Loss::Lost(Ran::Began | Ran::Unknown), Batch::Named) => Next::SameStore,
        (Loss::Lost(Ran::Began | Ran::Unknown), Batch::Plain) => Next::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_batches_that_cannot_run_twice_run_again() {
        for batch in [Batch::Nothing, Batch::Named, Batch::Plain] {
            for loss in [Loss::NoConnection, Loss::Refused, Loss::Lost(Ran::No)] {
                assert_eq!(next(loss, batch), Next::Again);
            }
        }
        for ran in [Ran::Began, Ran::Unknown] {
            assert_eq!(next(Loss::Lost(ran), Batch::Nothing), Next::Again);
            assert_eq!(next(Loss::Lost(ran), Batch::Named), Next::SameStore);
            assert_eq!(next(Loss::Lost(ran), Batch::Plain), Next::GiveUp);
        }
    }
}
