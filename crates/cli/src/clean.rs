//! Text for terminals.

use std::borrow::Cow;

/// The text with every character spelled out that would command a terminal, or show the line in
/// another order than it is written: names come from files and peers, whoever wrote them. Line ends
/// and tabs stay.
pub(crate) fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_control(character) {
            true => clean.extend(character.escape_unicode()),
            false => clean.push(character),
        }
    }
    Cow::Owned(clean)
}

/// Control characters (Unicode's category Cc), and those that turn the direction of writing (UAX
/// #9, the explicit formatting characters).
fn is_control(character: char) -> bool {
    let is_kept = matches!(character, '\n' | '\t');
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() && !is_kept || turns
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
        ];
        for (text, clean) in cases {
            assert_eq!(without_controls(text), clean);
        }
    }
}
