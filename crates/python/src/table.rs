//! Tables in Arrow's memory format, which other Python packages read without a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};

/// A column under construction.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// Numbers; NaN: missing.
    Float(Vec<f64>),
    /// Whole numbers, never missing.
    Integer(Vec<i64>),
    /// Truth values, never missing.
    Boolean(Vec<bool>),
    /// Texts of few different values.
    Text(Texts),
}

/// Texts by their indices among the different ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    /// An index for each row; `None`: missing.
    codes: Vec<Option<i32>>,
    names: Vec<String>,
    known: BTreeMap<String, i32>,
}

impl Texts {
    /// Adds a row.
    pub(crate) fn push(&mut self, text: Option<&str>) {
        let code = text.map(|text| self.code(text));
        self.codes.push(code);
    }

    fn code(&mut self, text: &str) -> i32 {
        if let Some(code) = self.known.get(text) {
            return *code;
        }
        let code = self.names.len() as i32;
        self.names.push(text.to_owned());
        self.known.insert(text.to_owned(), code);
        code
    }
}

impl Column {
    fn array(self) -> ArrayRef {
        match self {
            Column::Float(values) => {
                let is_missing = values.iter().any(|value| value.is_nan());
                let nulls = is_missing.then(|| {
                    values
                        .iter()
                        .map(|value| !value.is_nan())
                        .collect::<NullBuffer>()
                });
                Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
            }
            Column::Integer(values) => Arc::new(Int64Array::from(values)),
            Column::Boolean(values) => Arc::new(BooleanArray::from(values)),
            Column::Text(texts) => {
                let codes = Int32Array::from(texts.codes);
                let names = Arc::new(StringArray::from(texts.names));
                Arc::new(DictionaryArray::<Int32Type>::new(codes, names))
            }
        }
    }

    /// Returns the column of an array that [`Column::array`] has made.
    fn of(array: &ArrayRef) -> Column {
        let any = array.as_any();
        if let Some(floats) = any.downcast_ref::<Float64Array>() {
            return Column::Float(floats.values().to_vec());
        }
        if let Some(integers) = any.downcast_ref::<Int64Array>() {
            return Column::Integer(integers.values().to_vec());
        }
        if let Some(booleans) = any.downcast_ref::<BooleanArray>() {
            return Column::Boolean(booleans.values().iter().collect());
        }
        let mut texts = Texts::default();
        let (codes, names) = dictionary(array);
        for code in codes {
            texts.push(code.map(|code| names.value(code as usize)));
        }
        Column::Text(texts)
    }

    fn kind(&self) -> &'static str {
        match self {
            Column::Float(_) => "float64",
            Column::Integer(_) => "int64",
            Column::Boolean(_) => "bool",
            Column::Text(_) => "text",
        }
    }

    fn len(&self) -> usize {
        match self {
            Column::Float(values) => values.len(),
            Column::Integer(values) => values.len(),
            Column::Boolean(values) => values.len(),
            Column::Text(texts) => texts.codes.len(),
        }
    }

    /// Adds the rows of a column of the same kind, or as many missing ones.
    pub(crate) fn extend(
        &mut self,
        other: Option<&Column>,
        count: usize,
    ) -> Result<(), &'static str> {
        match (self, other) {
            (Column::Float(own), Some(Column::Float(other))) => own.extend(other),
            (Column::Float(own), Some(Column::Integer(other))) => {
                own.extend(other.iter().map(|value| *value as f64));
            }
            (Column::Float(own), None) => own.resize(own.len() + count, f64::NAN),
            (Column::Integer(own), Some(Column::Integer(other))) => own.extend(other),
            (Column::Boolean(own), Some(Column::Boolean(other))) => own.extend(other),
            (Column::Text(own), Some(Column::Text(other))) => {
                let names = &other.names;
                let texts = other.codes.iter();
                texts.for_each(|code| own.push(code.map(|code| names[code as usize].as_str())));
            }
            (Column::Text(own), None) => (0..count).for_each(|_| own.push(None)),
            (own, _) => return Err(own.kind()),
        }
        Ok(())
    }

    fn take(&self, rows: &[usize]) -> Column {
        match self {
            Column::Float(values) => Column::Float(rows.iter().map(|row| values[*row]).collect()),
            Column::Integer(values) => {
                Column::Integer(rows.iter().map(|row| values[*row]).collect())
            }
            Column::Boolean(values) => {
                Column::Boolean(rows.iter().map(|row| values[*row]).collect())
            }
            Column::Text(texts) => Column::Text(Texts {
                codes: rows.iter().map(|row| texts.codes[*row]).collect(),
                ..texts.clone()
            }),
        }
    }
}

fn dictionary(array: &ArrayRef) -> (Vec<Option<i32>>, &StringArray) {
    let dictionary = array
        .as_any()
        .downcast_ref::<DictionaryArray<Int32Type>>()
        .expect("a column has one of four types");
    let names = dictionary
        .values()
        .as_any()
        .downcast_ref::<StringArray>()
        .expect("the values of dictionaries are texts");
    (dictionary.keys().iter().collect(), names)
}

/// A table: columns of the same length, in a fixed order.
#[pyclass(frozen, module = "anabranch._native")]
#[derive(Debug)]
pub(crate) struct NativeTable {
    batch: RecordBatch,
}

impl NativeTable {
    /// Returns the table of these columns.
    ///
    /// # Panics
    /// If the columns differ in length.
    pub(crate) fn new(columns: Vec<(String, Column)>) -> NativeTable {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, column) in columns {
            let can_miss = matches!(column, Column::Float(_) | Column::Text(_));
            let array = column.array();
            fields.push(Field::new(name, array.data_type().clone(), can_miss));
            arrays.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        NativeTable {
            batch: batch.expect("columns have the same length"),
        }
    }

    fn columns(&self) -> Vec<(String, Column)> {
        let fields = self.batch.schema_ref().fields().iter();
        let columns = fields.zip(self.batch.columns());
        columns
            .map(|(field, array)| (field.name().clone(), Column::of(array)))
            .collect()
    }
}

#[pymethods]
impl NativeTable {
    /// Creates a table from (name, kind, values): kinds are float64, int64, bool and text.
    #[staticmethod]
    fn from_columns(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<NativeTable> {
        let mut read: Vec<(String, Column)> = Vec::new();
        for (name, kind, values) in columns {
            let column = match kind.as_str() {
                "float64" => Column::Float(values.extract()?),
                "int64" => Column::Integer(values.extract()?),
                "bool" => Column::Boolean(values.extract()?),
                "text" => {
                    let mut texts = Texts::default();
                    let values: Vec<Option<String>> = values.extract()?;
                    values.iter().for_each(|text| texts.push(text.as_deref()));
                    Column::Text(texts)
                }
                other => {
                    return Err(PyValueError::new_err(format!(
                        "no kind is called {other:?}"
                    )));
                }
            };
            if read
                .first()
                .is_some_and(|(_, first)| first.len() != column.len())
            {
                return Err(PyValueError::new_err(format!(
                    "column {name:?} has another length than the first one"
                )));
            }
            read.push((name, column));
        }
        Ok(NativeTable::new(read))
    }

    /// Returns the rows of all tables, in order. A column that a table lacks is missing there.
    #[staticmethod]
    fn concat(tables: Vec<PyRef<'_, NativeTable>>) -> PyResult<NativeTable> {
        let all: Vec<Vec<(String, Column)>> = tables.iter().map(|table| table.columns()).collect();
        let mut joined: Vec<(String, Column)> = Vec::new();
        for (name, column) in all.iter().flatten() {
            if joined.iter().any(|(known, _)| known == name) {
                continue;
            }
            let empty = match column {
                Column::Float(_) => Column::Float(Vec::new()),
                // An index that a table lacks is missing there, which only floats can be.
                Column::Integer(_) if all.iter().any(|table| lacks(table, name)) => {
                    Column::Float(Vec::new())
                }
                Column::Integer(_) => Column::Integer(Vec::new()),
                Column::Boolean(_) => Column::Boolean(Vec::new()),
                Column::Text(_) => Column::Text(Texts::default()),
            };
            joined.push((name.clone(), empty));
        }
        for table in &all {
            let count = table.first().map_or(0, |(_, column)| column.len());
            for (name, column) in &mut joined {
                let own = table.iter().find(|(known, _)| known == name);
                let extended = column.extend(own.map(|(_, column)| column), count);
                extended.map_err(|kind| {
                    let message = format!("column {name:?} is not {kind} in all tables");
                    PyValueError::new_err(message)
                })?;
            }
        }
        Ok(NativeTable::new(joined))
    }

    /// Returns the table of these rows, in their order.
    fn take(&self, rows: Vec<usize>) -> PyResult<NativeTable> {
        if rows.iter().any(|row| *row >= self.batch.num_rows()) {
            return Err(PyValueError::new_err("there are fewer rows"));
        }
        let columns = self.columns().into_iter();
        let taken = columns.map(|(name, column)| (name, column.take(&rows)));
        Ok(NativeTable::new(taken.collect()))
    }

    /// Returns the names of the columns.
    fn names(&self) -> Vec<String> {
        let fields = self.batch.schema_ref().fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns a column as (kind, bytes, names): names only for texts, whose bytes are int32 codes,
    /// -1 for missing ones. Truth values are a byte each.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<ColumnParts<'py>> {
        let Some(array) = self.batch.column_by_name(name) else {
            return Err(PyKeyError::new_err(name.to_owned()));
        };
        let any = array.as_any();
        if let Some(floats) = any.downcast_ref::<Float64Array>() {
            let bytes = PyBytes::new(py, floats.values().inner().as_slice());
            return Ok(("float64", bytes, None));
        }
        if let Some(integers) = any.downcast_ref::<Int64Array>() {
            let bytes = PyBytes::new(py, integers.values().inner().as_slice());
            return Ok(("int64", bytes, None));
        }
        if let Some(booleans) = any.downcast_ref::<BooleanArray>() {
            let bytes: Vec<u8> = booleans.values().iter().map(u8::from).collect();
            return Ok(("bool", PyBytes::new(py, &bytes), None));
        }
        let (codes, names) = dictionary(array);
        let codes = codes.into_iter().map(|code| code.unwrap_or(-1));
        let bytes: Vec<u8> = codes.flat_map(i32::to_ne_bytes).collect();
        let names = names.iter().flatten().map(str::to_owned).collect();
        Ok(("text", PyBytes::new(py, &bytes), Some(names)))
    }

    /// Returns the table as a stream of Arrow's C interface (the PyCapsule protocol).
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request.
        drop(requested_schema);
        let schema = self.batch.schema();
        let batches: [Result<RecordBatch, ArrowError>; 1] = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Returns the schema alone, as Arrow's C interface has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow_schema::ffi::FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, PicklePart<'py>)> {
        let mut parts = Vec::new();
        for (name, column) in self.columns() {
            let values = match column {
                Column::Float(values) => values.into_pyobject(py)?.into_any(),
                Column::Integer(values) => values.into_pyobject(py)?.into_any(),
                Column::Boolean(values) => values.into_pyobject(py)?.into_any(),
                Column::Text(texts) => {
                    let names = &texts.names;
                    let values: Vec<_> = texts
                        .codes
                        .iter()
                        .map(|code| code.map(|code| names[code as usize].clone()))
                        .collect();
                    values.into_pyobject(py)?.into_any()
                }
            };
            let kind = self.kind_of(&name);
            parts.push((name, kind, values));
        }
        let build = py.get_type::<NativeTable>().getattr("from_columns")?;
        Ok((build, (parts,)))
    }
}

/// A column's kind, its bytes, and the names that its codes stand for.
type ColumnParts<'py> = (&'static str, Bound<'py, PyBytes>, Option<Vec<String>>);

/// The argument of [`NativeTable::from_columns`], for pickle.
type PicklePart<'py> = (Vec<(String, &'static str, Bound<'py, PyAny>)>,);

impl NativeTable {
    fn kind_of(&self, name: &str) -> &'static str {
        let array = self.batch.column_by_name(name);
        array.map_or("text", |array| Column::of(&array.slice(0, 0)).kind())
    }
}

fn lacks(table: &[(String, Column)], name: &str) -> bool {
    !table.iter().any(|(known, _)| known == name)
}

/// Tables by name, under construction.
#[derive(Debug, Default)]
pub(crate) struct Tables(pub(crate) Vec<(&'static str, NativeTable)>);

impl Tables {
    /// Returns a dictionary of the tables.
    pub(crate) fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let tables = PyDict::new(py);
        for (name, table) in self.0 {
            tables.set_item(name, Py::new(py, table)?)?;
        }
        Ok(tables)
    }
}
