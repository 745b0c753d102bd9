//! Words for a shell: whatever a text has in it, the shell reads it as that one word.

/// The text as one word of any POSIX shell.
pub fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_meant() {
        for text in [
            "deploy",
            "",
            "a b",
            "it's",
            "$(reboot)",
            "`x`",
            "a\nb",
            "\\",
            "\"",
            "~",
            "*",
            "größe",
            "#",
            "a;b",
        ] {
            let script = format!("printf %s {}", quoted(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{script}");
        }
        assert_eq!(quoted("user@host:17"), "user@host:17");
    }
}
