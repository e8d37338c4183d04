//! Names and shapes of the keys of scenario files: the readers check keys by these tables, and the
//! schema for editors is made from them.

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Meaning of the key, in a line.
    pub(crate) about: &'static str,
    pub(crate) is_required: bool,
}

impl Key {
    pub(crate) const fn new(name: &'static str, shape: Shape, about: &'static str) -> Key {
        Key {
            name,
            shape,
            about,
            is_required: false,
        }
    }

    pub(crate) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
        Key {
            name,
            shape,
            about,
            is_required: true,
        }
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// Shape of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Text,
    Boolean,
    /// Such as "100 ms".
    Duration,
    /// Such as "3 Mbit/s".
    Rate,
    /// Such as "64 kB".
    Amount,
    /// An amount, a duration or packets.
    Queue,
    /// Such as "1.5 %" or 0.015.
    Share,
    Integer(i64, i64),
    Number(f64, f64),
    /// One of several names.
    Name(fn() -> Vec<String>),
    /// One of several names, perhaps with options behind it: `cubic:hystart=classic`.
    NameWithOptions(fn() -> Vec<String>),
    List(&'static Shape),
    /// Two of a kind.
    Pair(&'static Shape),
    Table(&'static [Key]),
    /// A table whose keys are names of the writer's choice.
    Named(&'static Shape),
    /// One of several shapes.
    Any(&'static [Shape]),
    /// A flow: the keys of all kinds, and those of the defaults if requested.
    Flow {
        is_default: bool,
    },
    /// Bounds by metric.
    Expectations,
    /// Lists of values by key.
    Sweep,
}
