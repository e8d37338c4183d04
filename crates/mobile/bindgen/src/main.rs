//! Writes the bindings of a language from the built library.

fn main() {
    uniffi::uniffi_bindgen_main();
}
