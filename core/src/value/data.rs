//! Data: what the user pushed, as the exact JSON text that he pushed.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::value::error::{Error, ErrorKind};
use crate::value::finite;
use crate::value::json::Cursor;

/// The most bytes of data that one job may have unless the client is told otherwise: 1 MiB.
pub const DEFAULT_MAX_DATA_BYTES: usize = 1024 * 1024;

/// One JSON value as its exact text: what goes in comes out byte for byte, white space and digits included.
///
/// ```
/// use duly::{DEFAULT_MAX_DATA_BYTES, Data};
///
/// let data = Data::from_json(r#"{"price":1.0, "id":9007199254740993}"#, DEFAULT_MAX_DATA_BYTES)?;
/// assert_eq!(data.as_str(), r#"{"price":1.0, "id":9007199254740993}"#);
/// assert!(Data::from_json("NaN", DEFAULT_MAX_DATA_BYTES).is_err());
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Data(Box<str>);

impl Data {
    /// Exactly one JSON value (RFC 8259), in UTF-8, nested at most 512 levels deep, of at most `max_bytes` bytes. White
    /// space around it is kept.
    ///
    /// Errors: [`ErrorKind::TooLarge`]; [`ErrorKind::InvalidArgument`] if it is not JSON (`NaN` and `Infinity` are
    /// not), not UTF-8, or nested too deep. The message says at which byte and never holds the data.
    pub fn from_json(json: impl Into<Vec<u8>>, max_bytes: usize) -> Result<Self, Error> {
        let json = json.into();
        check_size(json.len(), max_bytes)?;
        let json = String::from_utf8(json).map_err(|error| {
            Error::invalid(format!("the data is not UTF-8 (at byte {})", error.utf8_error().valid_up_to()))
        })?;
        let mut cursor = Cursor::new(&json);
        cursor.skip_space();
        cursor
            .value()
            .and_then(|_| cursor.finish())
            .map_err(|fault| Error::invalid(format!("the data is not one JSON value: {fault}")))?;
        Ok(Self(json.into_boxed_str()))
    }

    /// The JSON text of any serializable value, of at most `max_bytes` bytes.
    ///
    /// Errors: [`ErrorKind::TooLarge`]; [`ErrorKind::InvalidArgument`] if the value cannot be JSON: a NaN or an
    /// infinity anywhere in it, map keys that are no strings, deeper than 512 levels.
    ///
    /// ```
    /// use duly::{DEFAULT_MAX_DATA_BYTES, Data};
    ///
    /// assert_eq!(Data::from_serialize(&[1.0, 2.5], DEFAULT_MAX_DATA_BYTES)?.as_str(), "[1.0,2.5]");
    /// assert!(Data::from_serialize(&f64::NAN, DEFAULT_MAX_DATA_BYTES).is_err());
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T, max_bytes: usize) -> Result<Self, Error> {
        let not_json = "the value cannot be written as JSON: map keys must be strings or numbers";
        let json = serde_json::to_vec(value).map_err(|_| Error::invalid(not_json))?;
        // serde_json writes NaN as null. Only a text with a null in it is worth a second look.
        if json.windows(4).any(|four| four == b"null") && !finite::is_finite(value) {
            return Err(Error::invalid("the value holds a NaN or an infinity, which JSON cannot hold"));
        }
        Self::from_json(json, max_bytes)
    }

    /// Refuses data larger than a client's `max_data_bytes`.
    pub(crate) fn check_size(&self, max_data_bytes: usize) -> Result<(), Error> {
        check_size(self.0.len(), max_data_bytes)
    }

    /// Text that is known to be valid: it was read as part of a valid package.
    pub(crate) fn trusted(json: &str) -> Self {
        Self(json.into())
    }

    /// What stands in a package whose data is not read yet. It is no JSON, and takes no memory.
    pub(crate) fn unread() -> Self {
        Self(Box::default())
    }

    /// The exact JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The exact JSON text as bytes of UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The data as a value of the caller's type.
    ///
    /// [`ErrorKind::InvalidArgument`] if the data does not fit the type; the message says where in the data and
    /// never its content.
    ///
    /// ```
    /// let data = duly::Data::from_json("[1,2]", 100)?;
    /// assert_eq!(data.deserialize::<Vec<u8>>()?, [1, 2]);
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let mut reader = serde_json::Deserializer::from_str(&self.0);
        // serde_json stops at 128 levels; data was checked for at most 512 when it was made, so the stack is safe.
        reader.disable_recursion_limit();
        T::deserialize(&mut reader).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Error::invalid(format!("the data does not fit the handler's type (line {line}, column {column})"))
        })
    }
}

fn check_size(bytes: usize, max_data_bytes: usize) -> Result<(), Error> {
    if bytes > max_data_bytes {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the data has {bytes} bytes, more than the {max_data_bytes} that are allowed: store it elsewhere and push where it is, or raise max_data_bytes"
            ),
        ));
    }
    Ok(())
}

impl Default for Data {
    /// `null`.
    fn default() -> Self {
        Self("null".into())
    }
}

impl From<Data> for String {
    fn from(data: Data) -> Self {
        data.0.into_string()
    }
}

/// How many bytes it has; the content stays out of logs.
impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MAX: usize = DEFAULT_MAX_DATA_BYTES;

    #[test]
    fn data_is_kept_byte_for_byte() {
        for text in
            ["[]", "{}", " {\n} \n", "1.0", "-0.0", "1e400", "9007199254740993", "18446744073709551616", "\"\\u0000\""]
        {
            assert_eq!(Data::from_json(text, MAX).unwrap().as_str(), text);
        }
    }

    #[test]
    fn bad_data_is_refused_without_showing_it() {
        for bytes in [&b""[..], b"NaN", b"Infinity", b"[1,]", b"\"\xff\"", b"secret", b"{} {}"] {
            let error = Data::from_json(bytes, MAX).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(!error.to_string().contains("secret"));
        }
        assert_eq!(Data::from_json("[1]", 2).unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn nothing_that_is_not_finite_becomes_null() {
        assert!(Data::from_serialize(&[Some(1.0), None], MAX).is_ok());
        assert!(Data::from_serialize(&[Some(f64::NAN), None], MAX).is_err());
        assert!(Data::from_serialize(&BTreeMap::from([("a", (1, f32::INFINITY))]), MAX).is_err());
        assert!(Data::from_serialize(&BTreeMap::from([(vec![1], 1)]), MAX).is_err());
    }

    #[test]
    fn deep_data_can_be_read_as_deep_as_it_can_be_pushed() {
        let text = format!("{}{}", "[".repeat(512), "]".repeat(512));
        let value: serde_json::Value = Data::from_json(text.clone(), MAX).unwrap().deserialize().unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
    }

    #[test]
    fn a_misfit_does_not_show_the_data() {
        let error = Data::from_json("\"secret\"", MAX).unwrap().deserialize::<u8>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!format!("{:?}", Data::from_json("\"secret\"", MAX)).contains("secret"));
    }
}
