//! The schema: the mapping between the classes of a program and those of a repository.
//!
//! Read [`Schema`] first. It belongs to all sessions of a server. It asks the repository for
//! classes and defines new ones there; objects and records are the business of `encode.rs` and
//! `decode.rs`.
//!
//! 1. [`Schema::new`] compares each stored class with the program's. A class with other instance
//!    variables needs a migration (`migration.rs`), or it is a [`SchemaError`].
//! 2. `of_type` gives the class for objects that are stored, and defines it at first use.
//! 3. `of_number` gives the class for records that are read: the present one, or an older one with
//!    its migration.
//!
//! `Known` is a class of the repository as the program has it. The list of classes is kept here,
//! and read again when a number is not in it.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_ir::{Program, TypeId, TypeKind};
use bifrost_repository::record::{ClassDescriptor, Field, FieldKind, Kind};
use bifrost_repository::{ClassNumber, Error, Repository, SPECIFICATION_BYTES_MAX};
use bifrost_runtime::content::{Content, Place, PlaceKind};
use bifrost_runtime::{Image, Object, Table};
use parking_lot::RwLock;

use crate::counters::Counters;
use crate::error::Volatile;
use crate::migration::{self, Migration};

/// The reason why the objects of a repository are not those of a program.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A class has changed.
    #[error(
        "the class `{name}` has changed since its objects were stored: {change}; {}restore the class, or \
            use another name",
        match migration { Some(m) => format!("write a routine `{m}` beside the class, which converts them, \
            or "), None => String::new() }
    )]
    Changed {
        /// The class.
        name: String,
        /// The change of the class.
        change: String,
        /// The heading of the routine that is missing, if one can help.
        migration: Option<String>,
    },
    /// The repository failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl SchemaError {
    /// The migration that is missing, whole but for its work, if one can help: a routine that
    /// compiles beside the class.
    pub fn migration(&self) -> Option<String> {
        let SchemaError::Changed { migration: Some(heading), .. } = self else { return None };
        let name = heading.split(' ').next().unwrap_or_default();
        Some(format!("{heading}\n  signal failure(\"{name} is not written yet\")\nend {name}\n"))
    }
}

/// A class of the repository as the program has it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub number: ClassNumber,
    pub table: &'static Table,
    /// The number of fields of its objects. If their references have a length, they have one more
    /// than that, and this is 0.
    pub fields: usize,
    /// The one object of it, if there is only one.
    pub lasting: Option<Object>,
    /// The contents of its records.
    pub kind: Arc<Kind>,
    pub version: u32,
    /// If its records are of a class as it was: the places in them.
    pub held: Vec<Place>,
    /// If its records are of a class as it was: the migration to the class as it is.
    pub migration: Option<Arc<Migration>>,
}

/// The classes of a program and of a repository, for all sessions of a server.
pub struct Schema {
    image: Arc<Image>,
    repository: Arc<dyn Repository>,
    by_name: HashMap<String, TypeId>,
    state: RwLock<State>,
    counters: Counters,
    /// Takes the parts of the repository's failures that clients are not told.
    report: Option<Report>,
}

/// Takes the whole text of a failure of the repository, for the server's operator.
pub type Report = fn(&str);

/// The classes of a repository, by number from 1 on.
pub(crate) type Classes = Arc<[Arc<ClassDescriptor>]>;

#[derive(Default)]
struct State {
    by_type: HashMap<TypeId, Result<Arc<Known>, Volatile>>,
    by_number: Vec<Option<Arc<Known>>>,
    classes: Classes,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("classes", &self.state.read().classes.len()).finish_non_exhaustive()
    }
}

impl Schema {
    /// Compares a program with the contents of a repository.
    ///
    /// # Errors
    /// [`SchemaError`]: objects of a class that has changed are stored.
    pub fn new(image: Arc<Image>, repository: Arc<dyn Repository>) -> Result<Arc<Schema>, SchemaError> {
        Schema::reporting(image, repository, None)
    }

    /// Does as [`Schema::new`]. With `report`, texts for clients say of a failure of the repository
    /// only how to react. Places in files and messages of the system go there.
    ///
    /// # Errors
    /// As for [`Schema::new`].
    pub fn reporting(
        image: Arc<Image>,
        repository: Arc<dyn Repository>,
        report: Option<Report>,
    ) -> Result<Arc<Schema>, SchemaError> {
        let schema = Schema { report, ..Schema::unchecked(image, repository) };
        let classes = schema.repository.classes();
        if let Some(changed) = schema.changed(&classes).into_iter().next() {
            return Err(changed);
        }
        schema.state.write().classes = classes.into();
        Ok(Arc::new(schema))
    }

    /// Returns all classes that [`new`](Self::new) would refuse, with the migrations that are
    /// missing.
    pub fn differences(image: Arc<Image>, repository: Arc<dyn Repository>) -> Vec<SchemaError> {
        let schema = Schema::unchecked(image, repository);
        let classes = schema.repository.classes();
        schema.changed(&classes)
    }

    fn unchecked(image: Arc<Image>, repository: Arc<dyn Repository>) -> Schema {
        let program = image.program();
        let types =
            program.types.iter().filter(|(ty, _)| image.has_modes(*ty) && image.find_table(*ty).is_some());
        let by_name = types.map(|(ty, def)| (def.name.clone(), ty)).collect();
        let (state, counters) = (RwLock::default(), Counters::default());
        Schema { image, repository, by_name, state, counters, report: None }
    }

    /// Returns the classes of the store that have changed, and have no migration.
    fn changed(&self, classes: &[Arc<ClassDescriptor>]) -> Vec<SchemaError> {
        let mut changed: Vec<SchemaError> = Vec::new();
        for stored in classes {
            if let Some(ty) = self.by_name.get(&stored.name)
                && migration::find(self.image.program(), stored).is_none()
            {
                changed.extend(self.compare(*ty, stored, &changed).err());
            }
        }
        changed
    }

    /// Returns the repository.
    pub fn repository(&self) -> &Arc<dyn Repository> {
        &self.repository
    }

    /// Returns the text of a failure of the repository for a client.
    pub fn tell(&self, error: &Error) -> String {
        self.tell_as(error.told(), &error.to_string())
    }

    /// Returns the short text of a failure, whose whole text is reported. Without a taker of
    /// reports, returns the whole text.
    pub(crate) fn tell_as(&self, short: &str, whole: &str) -> String {
        let Some(report) = self.report else { return whole.to_owned() };
        report(whole);
        format!("{short}; see the server's log")
    }

    /// Returns the counts of the caches of all sessions.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the linked program.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Compares a class with its stored form. `before` are others that have changed, whose
    /// migrations have names too.
    fn compare(
        &self,
        ty: TypeId,
        stored: &ClassDescriptor,
        before: &[SchemaError],
    ) -> Result<(), SchemaError> {
        let program = self.image.program();
        let taken = |name: &str| {
            let begins = |heading: &str| heading.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
            let others = before.iter().any(|other| match other {
                SchemaError::Changed { migration, .. } => migration.as_deref().is_some_and(begins),
                SchemaError::Store(_) => false,
            });
            others || migration::has_routine(program, name)
        };
        let changed = |change: String| SchemaError::Changed {
            name: stored.name.clone(),
            change,
            migration: migration::heading(program, stored, ty, &taken),
        };
        let now = describe(&self.image, ty).map_err(|volatile| changed(volatile.why))?;
        match (&now.kind, &stored.kind) {
            (now, then) if now == then => Ok(()),
            (Kind::Object(now), Kind::Object(then)) => Err(changed(difference(then, now))),
            _ => Err(changed("its elements are of another kind".to_owned())),
        }
    }

    /// Returns the class of objects of a type that has objects.
    pub(crate) fn of_type(&self, ty: TypeId) -> Result<Result<Arc<Known>, Volatile>, Error> {
        if let Some(known) = self.state.read().by_type.get(&ty) {
            return Ok(known.clone());
        }
        let known = match describe(&self.image, ty) {
            Ok(mut class) => {
                if class.kind != Kind::Native {
                    class.version = self.version(&class);
                }
                let number = self.repository.define_class(&class)?;
                Ok(self.enter(ty, number, &class, None))
            }
            Err(volatile) => Err(volatile),
        };
        self.state.write().by_type.insert(ty, known.clone());
        Ok(known)
    }

    /// Returns the version of the class: a new one if the stored ones have other instance
    /// variables.
    fn version(&self, class: &ClassDescriptor) -> u32 {
        let classes = self.snapshot();
        let known = classes.iter().filter(|known| known.name == class.name);
        let same = known.clone().find(|known| known.kind == class.kind).map(|known| known.version);
        same.unwrap_or_else(|| {
            known.map(|known| known.version).max().map_or(1, |last| last.saturating_add(1))
        })
    }

    /// Returns the class of a number, if the program has it.
    pub(crate) fn of_number(&self, number: ClassNumber) -> Result<Arc<Known>, String> {
        let place = number.0 as usize;
        if let Some(Some(known)) = self.state.read().by_number.get(place) {
            return Ok(known.clone());
        }
        let class = self.class(number).ok_or_else(|| format!("the store has no class {number}"))?;
        let ty = self.by_name.get(&class.name).copied();
        let compared = ty.map(|ty| self.compare(ty, &class, &[]).map(|()| ty));
        let (ty, migration) = match (compared, migration::find(self.image.program(), &class)) {
            (Some(Ok(ty)), _) => (ty, None),
            (_, Some((ty, migration, held))) => (ty, Some((migration, held))),
            (Some(Err(changed)), None) => return Err(changed.to_string()),
            (None, None) => {
                return Err(format!(
                    "the store has objects of `{}`, a class that the program lacks",
                    class.name
                ));
            }
        };
        Ok(self.enter(ty, number, &class, migration))
    }

    fn enter(
        &self,
        ty: TypeId,
        number: ClassNumber,
        class: &ClassDescriptor,
        migration: Option<(Arc<Migration>, Vec<Place>)>,
    ) -> Arc<Known> {
        let (kind, version) = (Arc::new(class.kind.clone()), class.version);
        let table = self.image.table_of(ty);
        let lasting = table.info().class.and_then(|class| self.image.lasting(class));
        // SAFETY: the only objects of classes live as long as the process.
        let lasting = lasting.map(|object| unsafe { Object::new(object) });
        let fields = bifrost_runtime::object::field_count(self.image.program(), ty);
        let (migration, held) = migration.map_or((None, Vec::new()), |(m, held)| (Some(m), held));
        let known = Arc::new(Known { number, table, fields, lasting, kind, version, held, migration });
        let mut state = self.state.write();
        let place = number.0 as usize;
        if state.by_number.len() <= place {
            state.by_number.resize(place + 1, None);
        }
        state.by_number[place] = Some(known.clone());
        known
    }

    /// Returns the repository's descriptor of a class.
    fn class(&self, number: ClassNumber) -> Option<Arc<ClassDescriptor>> {
        let place = (number.0 as usize).checked_sub(1)?;
        if let Some(class) = self.state.read().classes.get(place) {
            return Some(class.clone());
        }
        // Defined by another session since.
        self.refresh().get(place).cloned()
    }

    /// Returns the classes of the repository, for the reader of records.
    pub(crate) fn snapshot(&self) -> Classes {
        self.state.read().classes.clone()
    }

    /// Asks the repository again for its classes, and returns them.
    pub(crate) fn refresh(&self) -> Classes {
        let classes: Classes = self.repository.classes().into();
        self.state.write().classes = classes.clone();
        classes
    }
}

/// Returns the kind of a place in a record.
pub(crate) fn field_kind(kind: PlaceKind) -> FieldKind {
    match kind {
        PlaceKind::Null => FieldKind::Nil,
        PlaceKind::Bool => FieldKind::Bool,
        PlaceKind::Int => FieldKind::Int,
        PlaceKind::Real => FieldKind::Real,
        PlaceKind::Char => FieldKind::Char,
        PlaceKind::String => FieldKind::Str,
        PlaceKind::Bytes => FieldKind::Bytes,
        PlaceKind::Object => FieldKind::Ref,
    }
}

/// Returns the headings of the methods of a class, by which its types are known.
fn specification(program: &Program, ty: TypeId) -> String {
    let def = program.types.def(ty);
    if !matches!(def.kind, TypeKind::Class(_)) {
        return String::new();
    }
    let mut headings: Vec<String> =
        def.methods.values().map(|method| program.types.heading(&method.name, &method.signature)).collect();
    headings.sort_unstable();
    let mut text = headings.join("\n");
    text.truncate(text.floor_char_boundary(SPECIFICATION_BYTES_MAX));
    text
}

/// Describes a class of a program for a repository.
fn describe(image: &Image, ty: TypeId) -> Result<ClassDescriptor, Volatile> {
    let program = image.program();
    let mut version = 1;
    let def = program.types.def(ty);
    let volatile = |why: &str| Volatile { class: def.name.clone(), why: why.to_owned() };
    let Some(info) = image.find_table(ty).map(Table::info) else { return Err(volatile("it is a routine")) };
    match def.kind {
        TypeKind::Group(_) => return Err(volatile("it is a group of actors")),
        TypeKind::Replier(_) => return Err(volatile("it is a reply destination")),
        _ => {}
    }
    let value = |place: &Place| field_kind(place.kind);
    let kind = match &info.content {
        Content::Native => {
            let persistence = info.persistence.ok_or_else(|| {
                volatile(
                    "it is native, and not persistent: implement `Persist` for its class and register \
                    it with `with_persistent_class`, or keep it unreachable from the root directory",
                )
            })?;
            version = persistence.version;
            Kind::Native
        }
        Content::Fields(places) => {
            let fields = info.class.map_or(&[][..], |class| &program.classes[class].fields);
            if let Some(field) = fields.iter().find(|field| program.types.kind(field.ty).is_routine()) {
                return Err(volatile(&format!("its instance variable `{}` holds a routine", field.name)));
            }
            let fields = fields.iter().zip(places);
            Kind::Object(
                fields.map(|(f, place)| Field { name: f.name.clone(), kind: value(place) }).collect(),
            )
        }
        Content::Array(element) => Kind::Array(value(element)),
        Content::Vector(element) => Kind::Vector(value(element)),
        Content::Sequence(element) => Kind::Sequence(value(element)),
        Content::List(first, _) => Kind::List(value(first)),
        Content::Cell(element) => Kind::Cell(value(element)),
        Content::Map(key, element) => Kind::Map(value(key), value(element)),
        Content::Directory => return Ok(ClassDescriptor::directory()),
        Content::Whole => return Err(volatile("it is a part of another object")),
    };
    let supertypes = def.supertypes.iter().map(|sup| program.types.name(sup.ty).to_owned()).collect();
    Ok(ClassDescriptor {
        name: def.name.clone(),
        version,
        kind,
        supertypes,
        specification: specification(program, ty),
    })
}

/// Describes the changes of the instance variables of a class.
fn difference(then: &[Field], now: &[Field]) -> String {
    let names = |fields: &[Field], others: &[Field]| {
        let only = fields.iter().filter(|f| !others.contains(f)).map(|f| format!("`{}`", f.name));
        only.collect::<Vec<_>>().join(", ")
    };
    match (names(then, now), names(now, then)) {
        (gone, new) if gone.is_empty() && new.is_empty() => {
            "its instance variables have another order".to_owned()
        }
        (gone, new) if gone.is_empty() => format!("{new} added"),
        (gone, new) if new.is_empty() => format!("{gone} removed"),
        (gone, new) => format!("{gone} removed and {new} added"),
    }
}
