//! Programs that end at once: refusals, help, and keys that they show. Nothing is waited for but
//! their end.

use std::fs::{File, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::bed::{Bed, anabranch, run};

/// Runs a sender that must end at once. Returns its exit code and messages.
fn send(bed: &Bed, input: &str, options: &[&str]) -> (i32, String) {
    let (key, peer) = (bed.text("sender.key"), &*bed.receiver_public);
    let fixed = ["send", "--to", "127.0.0.1:9", "--key", &key, "--peer", peer];
    let ended = run(&[&fixed[..], options, &[input]].concat());
    let said = String::from_utf8(ended.stderr).unwrap();
    (ended.status.code().expect("it was not killed"), said)
}

#[test]
fn errors_name_the_wrong_part() {
    let bed = Bed::new();
    let cases: [(&[&str], &str, i32, &str); 13] = [
        (&[], "nowhere.ts", 1, "nowhere.ts"),
        (&["--controller", "no-such"], "test:", 1, "live-bbr"),
        (&["--controller", "cubic:speed=1"], "test:", 1, "hystart"),
        (
            &["--controller", "cubic:hystart=no-such"],
            "test:",
            1,
            "classic",
        ),
        (&["--via", "127.0.0.1,weight=0"], "test:", 2, "above zero"),
        (&["--via", "127.0.0.1,meter"], "test:", 2, "metered"),
        (&["--fec", "no-such"], "test:", 1, "adaptive"),
        (&["--fec", "fixed:overhead=7"], "test:", 1, "0 to 1"),
        (&["--fec", "fixed:speed=1"], "test:", 1, "window"),
        (&["--scheduler", "no-such"], "test:", 1, "anabranch"),
        (
            &["--scheduler", "oracle"],
            "test:",
            1,
            "anabranch list schedulers",
        ),
        (&["--latency", "soon"], "test:", 2, "--latency"),
        (&["--duration", "1 s"], "udp://127.0.0.1:0", 1, "test:"),
    ];
    for (options, input, expected, part) in cases {
        let (code, said) = send(&bed, input, options);
        assert_eq!(code, expected, "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn key_files_are_private_and_not_overwritten() {
    let bed = Bed::new();
    let path = bed.path("sender.key");
    let text = bed.text("sender.key");
    let mode = path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(run(&["keygen", "--output", &text]).status.code(), Some(1));
    let shown = run(&["keygen", "--show", &text]);
    assert_eq!(
        String::from_utf8(shown.stdout).unwrap().trim(),
        bed.sender_public
    );
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let (code, said) = send(&bed, "test:", &[]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("chmod 600") && said.contains("sender.key"),
        "{said}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let output = command.arg("list").stdout(writer).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn no_key_is_said_that_is_given_in_the_wrong_place() {
    let bed = Bed::new();
    let key = bed.text("sender.key");
    let secret_file = std::fs::read_to_string(bed.path("receiver.key")).unwrap();
    let secret = secret_file.trim();
    let bare = &secret["absec_".len()..];
    let to = ["send", "--to", "127.0.0.1:9"];
    let public: &str = &bed.receiver_public;
    // A key may begin like an option.
    let peer_bare = format!("--peer={bare}");
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["--key", &key, "--peer", secret, "test:"],
            2,
            "--peer <PUBKEY>: this is a secret key",
        ),
        (
            &["--key", &key, &peer_bare, "test:"],
            2,
            "followed by 43 characters",
        ),
        (
            &["--key", secret, "--peer", public, "test:"],
            1,
            "cannot read key file",
        ),
        (
            &["--key", &key, "--peer", public, secret],
            1,
            "cannot open input",
        ),
        (
            &["--key", &key, "--peer", public, "--via", secret, "test:"],
            1,
            "interface",
        ),
        (
            &[secret, &key, "--peer", public, "test:"],
            2,
            "unexpected argument",
        ),
    ];
    for (arguments, code, part) in cases {
        let output = run(&[&to[..], arguments].concat());
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(!said.contains(bare), "{said}");
    }
}

#[test]
fn no_password_of_obs_is_said_that_is_given_in_the_wrong_place() {
    for wrong in [
        "obs://:hunter2@127.0.0.1:4455",
        "obs://hunter2@127.0.0.1:4455",
        "obs://127.0.0.1:4455?password=hunter2",
        "obs://127.0.0.1:4455?hunter2",
        "obs:://hunter2@127.0.0.1",
        "obs:hunter2@127.0.0.1:4455",
    ] {
        let arguments = [
            "send",
            "--to",
            "127.0.0.1:9",
            "film.ts",
            "--target-to",
            wrong,
        ];
        let ran = run(&[&arguments[..], &["--encoder-range", "1Mbit/s..2Mbit/s"]].concat());
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(
            said.contains("--target-to") && !said.contains("hunter2"),
            "{said}"
        );
    }
}

/// Returns the public key that `keygen --show` prints for a key file with this mode.
fn shown_key(
    bed: &Bed,
    mode: u32,
    file: &str,
    change: impl FnOnce(&mut Command),
) -> Result<String, String> {
    let path = bed.path("sender.key");
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    let mut command = anabranch();
    command
        .args(["keygen", "--show", file])
        .stdin(File::open(path).unwrap());
    change(&mut command);
    let output = command.output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn a_secret_that_a_container_mounts_comes_by_standard_input_or_as_a_credential() {
    let bed = Bed::new();
    let (path, folder) = (bed.text("sender.key"), bed.folder.path().to_owned());
    let error = shown_key(&bed, 0o444, &path, |_| {}).unwrap_err();
    assert!(error.contains("--key /dev/stdin <"), "{error}");
    let key = bed.sender_public.clone();
    assert_eq!(
        shown_key(&bed, 0o444, "/dev/stdin", |_| {}),
        Ok(key.clone())
    );
    assert_eq!(
        shown_key(&bed, 0o440, &path, |command| {
            command.env("CREDENTIALS_DIRECTORY", &folder);
        }),
        Ok(key)
    );
    assert!(shown_key(&bed, 0o440, &path, |_| {}).is_err());
}

#[test]
fn outputs_and_paths_that_cannot_be_meant_are_refused() {
    let bed = Bed::new();
    let key = bed.text("receiver.key");
    for (output, part) in [("film.mkv", "film.ts"), ("udp://@:6000", "where to?")] {
        let start = ["recv", "--listen", "127.0.0.1:0", "--key", &key];
        let refused = run(&[&start[..], &["--allow", &bed.sender_public, output]].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
    let twice = ["--via", "lo", "--via", "127.0.0.1", "--via", "lo,weight=2"];
    let (code, said) = send(&bed, "test:", &twice);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("two paths to 127.0.0.1:9 by lo"), "{said}");
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    for (arguments, part) in [
        (
            [
                "recv",
                "--listen",
                "udp://127.0.0.1:0",
                "rist://127.0.0.1:5000",
            ],
            "ristsender, which is not installed (Debian: rist-tools)",
        ),
        (
            [
                "recv",
                "--listen",
                "rtmp://127.0.0.1:5000/live/hidden",
                "out.ts",
            ],
            "ffmpeg, which is not installed (Debian: ffmpeg)",
        ),
    ] {
        let output = anabranch()
            .args(arguments)
            .env("PATH", "")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part) && !said.contains("hidden"), "{said}");
    }
}

#[test]
fn conflicting_options_are_refused() {
    let srtla = ["recv", "--listen", "srtla://127.0.0.1:5000"];
    let srt = ["--listen", "srt://127.0.0.1:5001?mode=listener"];
    let key = [
        "--allow",
        "abpub_4vqLSH8Ftgk_M9WZENfb0gNJoy1kvprL7Jw1_0Vx-Ao",
    ];
    let ours = ["--listen", "127.0.0.1:0"];
    let twice = ["--listen", "srtla://127.0.0.1:5002"];
    let unknown = ["--listen", "webrtc://127.0.0.1:5002"];
    for (options, output, part) in [
        (&srt[..], "out.ts", "say whose it is"),
        (&key, "out.ts", "--listen ADDR:PORT"),
        (&ours, "{name}.ts", "--allow KEY"),
        (&[ours, key].concat(), "{name}.ts", "--key FILE"),
        (&twice, "{name}.ts", "srtla2="),
        (&unknown, "out.ts", "srtla, srt, rist"),
    ] {
        let output = run(&[&srtla[..], options, &[output]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let is_refused = !output.status.success() && said.contains(part);
        assert!(is_refused, "{part}: {said}");
    }
}

#[test]
fn unknown_parameters_and_wrong_values_are_refused_in_both_directions() {
    let bed = Bed::new();
    let (sender, receiver) = (bed.text("sender.key"), bed.text("receiver.key"));
    let send = ["send", "--to", "127.0.0.1:9", "--key", &sender, "--peer"];
    let send = [&send[..], &[&bed.receiver_public]].concat();
    let recv = ["recv", "--listen", "127.0.0.1:0", "--key", &receiver];
    let recv = [&recv[..], &["--allow", &bed.sender_public]].concat();
    for start in [&send, &recv] {
        for (query, part) in [
            ("localadr=127.0.0.1", "no parameter \"localadr\""),
            ("ttl=256", "expected 0 to 255"),
        ] {
            let place = format!("udp://127.0.0.1:6000?{query}");
            let refused = run(&[&start[..], &[&place]].concat());
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(part), "{said}");
        }
    }
}

#[test]
fn the_help_of_both_ends_lists_the_parameters() {
    for command in ["send", "recv"] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        for name in ["localaddr=ADDR", "iface=NAME", "ttl=N", "rcvbuf=BYTES"] {
            assert!(help.contains(name), "{command}: {name}");
        }
    }
}

#[test]
fn addresses_and_tokens_that_do_not_fit_are_refused_before_the_work_begins() {
    let bed = Bed::new();
    let short = bed.text("short");
    std::fs::write(&short, "hunter2").unwrap();
    std::fs::set_permissions(&short, Permissions::from_mode(0o600)).unwrap();
    let (key, allow) = (bed.text("receiver.key"), &*bed.sender_public);
    let listen = ["recv", "--listen", "127.0.0.1:0", "--key", &key];
    let output = bed.text("out.ts");
    for (options, code, said) in [
        (
            &["--dashboard", "0.0.0.0:0"][..],
            1,
            "add --dashboard-token-file FILE",
        ),
        (
            &["--dashboard", "0", "--dashboard-token-file", &short],
            1,
            "openssl rand -hex 16",
        ),
        (
            &["--metrics-host", "studio"],
            1,
            "is for --metrics or --dashboard",
        ),
        (
            &["--dashboard-token-file", &short],
            1,
            "is for --dashboard, and for --whep",
        ),
        (
            &["--whep", "0.0.0.0:0"],
            1,
            "add --dashboard-token-file FILE",
        ),
    ] {
        let ended = run(&[&listen[..], &["--allow", allow], options, &[&output]].concat());
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{options:?}: {error}");
        assert!(error.contains(said), "{options:?}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn bad_observers_fail_before_the_start() {
    let bed = Bed::new();
    let key = bed.text("receiver.key");
    let allow = &bed.sender_public;
    let fixed = [
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--key",
        &key,
        "--allow",
        allow,
    ];
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let folder = bed.text(".");
    for (options, code, said) in [
        (
            ["--metrics", &taken, "out.ts"],
            1,
            "--metrics: cannot listen at 127",
        ),
        (["--metrics", "x", "out.ts"], 2, "expected a port"),
        (["--stats", &folder, "out.ts"], 1, "--stats: cannot write"),
        (
            ["--stats", "-", "-"],
            1,
            "standard output carries the video",
        ),
        (["--stats", "1 s", "out.ts"], 2, "--report '1 s'"),
    ] {
        let output = run(&[&fixed[..], &options].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {error}");
        assert!(error.contains(said), "{options:?}: {error}");
    }
}

#[test]
fn a_file_is_examined_without_starting_anything() {
    let bed = Bed::new();
    let config = bed.text("camera.toml");
    let good = format!(
        "[send]\nto = \"127.0.0.1:9\"\nkey = {:?}\npeer = \"{}\"\ninput = \"film.ts\"\n",
        bed.text("sender.key"),
        bed.receiver_public
    );
    std::fs::write(&config, &good).unwrap();
    let checked = run(&["config", "check", &config]);
    assert!(checked.status.success(), "{checked:?}");
    let shown = run(&["config", "show", &config]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("anabranch send --key=") && shown.contains(" -- film.ts"),
        "{shown}"
    );
    for (wrong, part) in [
        (good.replace("sender.key", "no.key"), "no.key"),
        (good.replace("input = \"film.ts\"", ""), "INPUT"),
        (
            good.replace("[send]", "[send]\nlatency = \"1 year\""),
            "1 year",
        ),
        (good.replace("peer", "pear"), "did you mean \"peer\""),
    ] {
        std::fs::write(&config, wrong).unwrap();
        let checked = run(&["config", "check", &config]);
        let error = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.code(), Some(1), "{error}");
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn tunnel_errors_name_the_remedy() {
    let bed = Bed::new();
    let key = bed.text("sender.key");
    let peer = &bed.receiver_public;
    let cases: [(&[&str], &str); 4] = [
        (
            &[
                "proxy",
                "--to",
                "127.0.0.1:9",
                "--key",
                &key,
                "--peer",
                peer,
            ],
            "--socks5 <ADDR>",
        ),
        (
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--key",
                &key,
                "--allow",
                peer,
            ],
            "--forward HOST:PORT",
        ),
        (
            &[
                "proxy",
                "--to",
                "127.0.0.1:9",
                "--key",
                &key,
                "--peer",
                peer,
                "--listen",
                "8080x",
            ],
            "--listen 8080x: expected an address and a port",
        ),
        (
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--key",
                &key,
                "--allow",
                peer,
                "--connect",
                "example.org",
            ],
            "expected any, HOST:PORT",
        ),
    ];
    for (arguments, expected) in cases {
        let refused = run(arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && said.contains(expected),
            "{said}"
        );
    }
}

/// Runs a command that fails, and returns its error output.
fn complaint(bed: &Bed, words: &[&str]) -> String {
    let output = anabranch()
        .env("XDG_STATE_HOME", bed.path("camera"))
        .args(words)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn mistakes_with_links_and_keys_are_explained_without_the_code() {
    let bed = Bed::new();
    let code = "AAAAAAAAAAAAAAAAAAAAAA";
    let key = &bed.receiver_public;
    let link = format!("anabranch://127.0.0.1:9?key={key}&code={code}");
    let cut = complaint(
        &bed,
        &["send", "film.ts", "anabranch://127.0.0.1:9?key=abpub_x"],
    );
    assert!(cut.contains("copied whole"), "{cut}");
    let unquoted = complaint(&bed, &["send", "film.ts", "anabranch://127.0.0.1:9"]);
    assert!(unquoted.contains("needs quotes"), "{unquoted}");
    let output = complaint(&bed, &["recv", "--pair", &link]);
    assert!(!output.contains(code), "{output}");
    let twice = ["proxy", &link, "--to", &link, "--listen", "127.0.0.1:0"];
    let proxy = complaint(&bed, &twice);
    assert!(
        proxy.contains("two links") && !proxy.contains(code),
        "{proxy}"
    );
    let own = [
        "send",
        "--to",
        "127.0.0.1:9",
        "--key",
        &bed.text("sender.key"),
        "--peer",
        &bed.sender_public,
        "-",
    ];
    let own = complaint(&bed, &own);
    assert!(own.contains("is this machine's own key"), "{own}");
    let own = [
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--key",
        &bed.text("receiver.key"),
        "--allow",
        key,
        &bed.text("x.ts"),
    ];
    let own = complaint(&bed, &own);
    assert!(own.contains("is this receiver's own key"), "{own}");
    let stdout = complaint(&bed, &["recv", "--pair", "-"]);
    assert!(
        stdout.contains("standard output, which carries the video"),
        "{stdout}"
    );
}

#[cfg(all(feature = "codec", feature = "emulate"))]
#[test]
fn impossible_networks_are_refused() {
    let bed = Bed::new();
    let shared = crate::bed::TWO_ROUTES.replace("forward = [\"void\"]", "forward = [\"there\"]");
    let long =
        crate::bed::TWO_ROUTES.replace("forward = [\"there\"]", "forward = [\"there\", \"void\"]");
    for (text, reason) in [
        (shared, "two routes share the link \"there\""),
        (long, "route \"one\" has 2 links one way"),
    ] {
        let file = bed.path("network.toml");
        std::fs::write(&file, text).unwrap();
        let output = run(&["emulate", file.to_str().unwrap(), "--to", "127.0.0.1:9"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}
