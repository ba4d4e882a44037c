//! Repositories around another, which do as that does but for a few calls.

/// The calls of a [`Repository`](bifrost_repository::Repository) that a field answers: all but `fetch`, `changes` and `commit`.
macro_rules! delegated {
    ($inner:ident) => {
        fn identity(&self) -> bifrost_repository::Identity {
            self.$inner.identity()
        }

        fn head(&self) -> bifrost_repository::Tid {
            self.$inner.head()
        }

        fn allocate(&self, count: u32) -> Result<std::ops::Range<u64>, bifrost_repository::Error> {
            self.$inner.allocate(count)
        }

        fn outcome(
            &self,
            batch: bifrost_repository::BatchId,
        ) -> Result<Option<bytes::Bytes>, bifrost_repository::Error> {
            self.$inner.outcome(batch)
        }

        fn define_class(
            &self,
            class: &bifrost_repository::record::ClassDescriptor,
        ) -> Result<bifrost_repository::ClassNumber, bifrost_repository::Error> {
            self.$inner.define_class(class)
        }

        fn classes(&self) -> Vec<std::sync::Arc<bifrost_repository::record::ClassDescriptor>> {
            self.$inner.classes()
        }

        fn register(
            &self,
            holder: std::sync::Arc<dyn bifrost_repository::Holder>,
        ) -> bifrost_repository::Registration {
            self.$inner.register(holder)
        }

        fn watch(
            &self,
            orefs: Vec<bifrost_repository::Oref>,
            watcher: std::sync::Arc<dyn bifrost_repository::Watcher>,
        ) -> bifrost_repository::Watching {
            self.$inner.watch(orefs, watcher)
        }

        fn scan(
            &self,
            from: bifrost_repository::Oref,
            limit: usize,
        ) -> Result<Vec<(bifrost_repository::Oref, bifrost_repository::Stored)>, bifrost_repository::Error> {
            self.$inner.scan(from, limit)
        }

        fn collect(
            &self,
            progress: &mut dyn FnMut(bifrost_repository::Progress) -> std::ops::ControlFlow<()>,
        ) -> Result<bifrost_repository::Collected, bifrost_repository::Error> {
            self.$inner.collect(progress)
        }

        fn check(
            &self,
            progress: &mut dyn FnMut(bifrost_repository::Progress),
        ) -> Result<bifrost_repository::Report, bifrost_repository::Error> {
            self.$inner.check(progress)
        }

        fn info(&self) -> Result<bifrost_repository::Info, bifrost_repository::Error> {
            self.$inner.info()
        }

        fn gauges(&self) -> bifrost_repository::Gauges {
            self.$inner.gauges()
        }
    };
}
