//! Text for terminals.

use std::borrow::Cow;

/// Escapes all characters that could control a terminal, reorder the line on the screen, or hide a
/// part of it. Names come from files and peers and cannot be trusted. Line ends and tabs stay.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_control(character) {
            clean.extend(character.escape_unicode())
        } else {
            clean.push(character)
        }
    }
    Cow::Owned(clean)
}

/// Escapes line ends and tabs too, so that untrusted text stays on one line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\t']) {
        return without_controls(text);
    }
    let text = text.replace('\n', "\\n").replace('\t', "\\t");
    Cow::Owned(without_controls(&text).into_owned())
}

/// Returns whether the character is a control character (Unicode's category Cc), a line or
/// paragraph separator, or invisible. Invisible characters change the direction of writing (UAX
/// #9), have no width, or are ignored where they are unknown (`Default_Ignorable_Code_Point`).
/// Variation selectors are allowed: they belong to the preceding character.
fn is_control(character: char) -> bool {
    let is_kept = matches!(character, '\n' | '\t');
    let is_unseen = matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    character.is_control() && !is_kept || is_unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_spelled_out_and_all_else_stays() {
        let plain = "Zwei Wege: 4 Mbit/s → 80 ms\n\t„ja“ 日本\n";
        assert!(matches!(without_controls(plain), Cow::Borrowed(same) if same == plain));
        let cases = [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\rb", "a\\u{d}b"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{8}\u{7f}\u{0}", "\\u{8}\\u{7f}\\u{0}"),
            ("\u{202e}fdp.exe", "\\u{202e}fdp.exe"),
            ("a\u{2028}b\u{2029}c", "a\\u{2028}b\\u{2029}c"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("\u{200f}\u{61c}\u{2066}", "\\u{200f}\\u{61c}\\u{2066}"),
            ("\u{3164}\u{e0041}", "\\u{3164}\\u{e0041}"),
        ];
        for (text, clean) in cases {
            assert_eq!(without_controls(text), clean);
        }
    }

    #[test]
    fn a_strangers_text_is_one_line() {
        let forged = "hello\nERROR the disk is full\r\n\u{2028}\tx";
        let line = "hello\\nERROR the disk is full\\u{d}\\n\\u{2028}\\tx";
        assert_eq!(one_line(forged), line);
        let plain = "Zwei Wege";
        assert!(matches!(one_line(plain), Cow::Borrowed(same) if same == plain));
    }
}
