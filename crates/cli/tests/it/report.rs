//! The page of a suite, from correct results, wrong ones and none, read by a browser.

use harness::{BROWSER_PICTURE_SIZE, Browser, Syncline};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder with a suite in `suite/`.
struct Site {
    folder: TempDir,
    syncline: Syncline,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("suite")).unwrap();
        let syncline = Syncline::new(env!("CARGO_BIN_EXE_syncline"), folder.path());
        Site { folder, syncline }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("suite").join(name), text).unwrap();
    }

    /// A real result, however small.
    fn measure(&self, operation: &str, name: &str) -> Value {
        let file = format!("suite/{name}");
        self.syncline.ok(&[
            "bench",
            "run",
            "--consolidated",
            "sqlite:bench.db",
            "--clients",
            "2",
            "--rows",
            "10",
            "--sets",
            "1",
            "--operation",
            operation,
            "--json",
            &file,
        ]);
        serde_json::from_str(&fs::read_to_string(self.path(&file)).unwrap()).unwrap()
    }

    fn page(&self) -> String {
        fs::read_to_string(self.path("report.html")).unwrap()
    }
}

fn point(label: &str, value: Value, operation: &str, file: &str) -> Value {
    let command = format!("syncline bench run --operation {operation} > {label}");
    let run = json!({ "operation": operation, "file": file, "command": command });
    json!({ "label": label, "value": value, "runs": [run] })
}

fn suite(tests: &Value) -> Value {
    json!({
        "suite_version": 1,
        "started": "2026-01-31T12:34:56Z",
        "command": "syncline bench suite --consolidated 'sqlite:bench.db' --scale 0.01",
        "scale": 0.01,
        "consolidated": "sqlite:bench.db",
        "machine": null,
        "tests": tests,
    })
}

/// Everything that a suite may hold: figures, failures, rubbish, and names that are markup.
fn write_everything(site: &Site) -> Value {
    let download = site.measure("download", "download.json");
    site.measure("upload-insert", "insert.json");
    site.write("cut.json", "{\"operation\": \"download\", \"rows_per_sec");
    site.write("empty.json", "");
    site.write("list.json", "[1, 2]");
    let told = json!({ "error": { "code": "E9002", "message": "<b>2 rows</b> & more" } });
    site.write("told.json", &told.to_string());
    let mut absurd = download.clone();
    absurd["rows_per_second"] = json!(1e300);
    site.write("absurd.json", &absurd.to_string());
    let down = |label: &str, value: Value, file: &str| point(label, value, "download", file);
    let tests = json!([
        {
            "name": "clients",
            "title": "Number of clients",
            "parameter": { "name": "clients", "unit": "" },
            "points": [
                down("2", json!(2), "download.json"),
                down("200", json!(200), "told.json"),
                down("5", json!(5), "cut.json"),
                down("7", json!(7), "not-there.json"),
                point("2", json!(2), "upload-insert", "insert.json"),
            ],
        },
        {
            "name": "odd",
            "title": "<script>alert(1)</script>",
            "parameter": { "name": "\"><img alt=x>", "unit": null },
            "points": [
                down("</svg><script>", Value::Null, "download.json"),
                down("empty", Value::Null, "empty.json"),
                down("list", Value::Null, "list.json"),
                down("outside", Value::Null, "../suite/download.json"),
                down("absurd", json!(-1e300), "absurd.json"),
                down("folder", Value::Null, "."),
            ],
        },
        { "name": "transports", "title": "Transports", "missing": "only one <as yet>" },
        { "name": "nothing" },
    ]);
    site.write("suite.json", &suite(&tests).to_string());
    download
}

/// Nothing of the page is elsewhere, and nothing of it runs.
fn check_whole_in_itself(page: &str) {
    let svg = "xmlns=\"http://www.w3.org/2000/svg\"";
    let rest = page.replace(svg, "").replace("href=\"data:,\"", "").to_lowercase();
    for reference in ["://", "src=", "<img", "url(", "@import", "<script", "javascript:", "<iframe"]
    {
        assert!(!rest.contains(reference), "{reference}");
    }
    for link in rest.split("href=\"").skip(1) {
        assert!(link.starts_with('#'), "{}", &link[..link.len().min(80)]);
    }
}

#[test]
fn a_page_shows_figures_failures_and_what_is_missing() {
    let site = Site::new();
    let download = write_everything(&site);
    fs::write(site.path("report.html"), "an earlier page").unwrap();
    let told = site.syncline.ok(&["bench", "report", "suite"]);
    assert_eq!(told, "report.html: figures of 3 of 11 runs, 7 failed, 1 not run yet\n");
    let page = site.page();
    check_whole_in_itself(&page);
    for text in [
        // Ours and theirs: the headline, and table 10 of the whitepaper for 10,000 clients.
        "469k",
        "432,900",
        "MobiLink 12 performance whitepaper, 2012",
        // Why there are no figures.
        "E9002: &lt;b&gt;2 rows&lt;/b&gt; &amp; more",
        "its file is not a result: EOF while parsing",
        "its file is outside the folder of the suite",
        "its file has no figures",
        "not run yet",
        "only one &lt;as yet&gt;",
        // Names that are markup, in the page and in a chart.
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "&lt;/svg&gt;&lt;script&gt;",
        // To repeat it.
        "--consolidated &#39;sqlite:bench.db&#39; --scale 0.01",
        "syncline bench run --operation download &gt; 2",
        "2026-01-31, 12:34 UTC",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let ours = download["rows_per_second"].as_f64().unwrap().round().to_string();
    assert!(page.replace(',', "").contains(&format!("<td class=\"ours\">{ours}</td>")), "{ours}");
    let headings = page.matches("<h3>Download</h3>").count();
    assert_eq!(headings, 3, "one in the headline, one for each test");
}

/// A run of the size, the build and the durability that are compared with published figures.
fn comparable(result: &Value, operation: &str, conflicts: u32) -> Value {
    let mut result = result.clone();
    result["operation"] = json!(operation);
    result["clients"] = json!(1000);
    result["rows_per_sync"] = json!(1000);
    result["rows_per_second"] = json!(1_000_000);
    result["settings"]["sets"] = json!(10);
    result["settings"]["conflicts_percent"] = json!(conflicts);
    result["settings"]["consolidated"]["fsync"] = json!("on");
    result["settings"]["consolidated"]["synchronous_commit"] = json!("on");
    result["machine"]["build"] = json!("dist");
    result
}

#[test]
fn the_page_claims_only_what_may_be_compared() {
    let site = Site::new();
    let result = site.measure("upload-update", "result.json");
    let disputed = point("1 %", json!(1), "upload-update", "disputed.json");
    let plain = point("1000", json!(1000), "upload-update", "plain.json");
    let tests = json!([
        { "name": "clients", "points": [plain] },
        { "name": "conflicts", "points": [disputed] },
    ]);
    site.write("suite.json", &suite(&tests).to_string());
    let page = |plain: &Value, disputed: &Value| {
        site.write("plain.json", &plain.to_string());
        site.write("disputed.json", &disputed.to_string());
        site.syncline.ok(&["bench", "report", "suite"]);
        site.page()
    };
    let plain = comparable(&result, "upload-update", 0);
    let disputed = comparable(&result, "upload-update", 1);
    let good = page(&plain, &disputed);
    assert!(good.contains("Ahead of the published figures in 1 of 1 operation."), "{good}");
    assert!(good.contains("With 1 % conflicts updates reach 1,000,000 rows a second"));
    assert!(good.contains("Syncline sends 117 bytes per row."));

    let changes: [(&str, Value, &str); 6] = [
        ("/machine/build", json!("release"), "not a build with --profile dist"),
        ("/clients", json!(20), "20 clients"),
        ("/rows_per_sync", json!(100), "100 rows each"),
        ("/settings/sets", json!(1), "1 sets"),
        ("/settings/consolidated/fsync", json!("off"), "fsync off"),
        ("/settings/consolidated/synchronous_commit", json!("off"), "synchronous_commit off"),
    ];
    for (pointer, value, obstacle) in changes {
        let changed = |result: &Value| {
            let mut result = result.clone();
            *result.pointer_mut(pointer).unwrap() = value.clone();
            result
        };
        let without = page(&changed(&plain), &disputed);
        assert!(!without.contains("Ahead of"), "{pointer}");
        assert!(without.contains(&format!("published 114k: {obstacle}")), "{pointer}: {without}");
        let without = page(&plain, &changed(&disputed));
        assert!(!without.contains("Ahead of"), "{pointer} with conflicts");
    }
}

#[test]
fn no_line_of_a_table_is_empty() {
    let site = Site::new();
    site.measure("download", "download.json");
    let small = json!([{
        "name": "small",
        "points": [
            point("1 row", Value::Null, "upload-insert", "not-there.json"),
            point("no row", Value::Null, "download", "download.json"),
        ],
    }]);
    site.write("suite.json", &suite(&small).to_string());
    site.syncline.ok(&["bench", "report", "suite"]);
    let page = site.page();
    assert_eq!(page.matches("<th scope=\"row\">no row</th>").count(), 1, "only of downloads");
    assert_eq!(page.matches("<th scope=\"row\">1 row</th>").count(), 1, "only of inserts");
}

#[test]
fn a_folder_without_a_suite_is_an_error_and_leaves_the_page_alone() {
    let site = Site::new();
    fs::write(site.path("report.html"), "an earlier page").unwrap();
    let fails = |code: &str, arguments: &[&str]| {
        site.syncline.fails(code, &[&["bench", "report"], arguments].concat());
        assert_eq!(site.page(), "an earlier page", "{arguments:?}");
    };
    fails("E6011", &["nowhere"]);
    fails("E6011", &["suite"]);
    for rubbish in ["", "{", "[]", "{}", "{\"suite_version\": 99}", "{\"suite_version\": \"1\"}"] {
        site.write("suite.json", rubbish);
        fails("E6011", &["suite"]);
    }
    fs::remove_file(site.path("suite/suite.json")).unwrap();
    fs::create_dir(site.path("suite/suite.json")).unwrap();
    fails("E6011", &["suite"]);
    fs::remove_dir(site.path("suite/suite.json")).unwrap();

    // A suite of which nothing has been run is one.
    site.write("suite.json", &suite(&json!([])).to_string());
    fails("E6010", &["suite", "--output", "nowhere/report.html"]);
    let told = site.syncline.ok(&["bench", "report", "suite"]);
    assert_eq!(told, "report.html: figures of 0 runs\n");
    check_whole_in_itself(&site.page());
}

#[test]
fn a_browser_shows_the_page_as_it_was_written() {
    let site = Site::new();
    write_everything(&site);
    site.syncline.ok(&["bench", "report", "suite"]);
    let browser = Browser::new(&site.path("browser"));
    let page = site.page();

    // Where markup is wrong a browser repairs it, and there are other elements than were written.
    let shown = browser.elements(&site.path("report.html"));
    assert!(shown.trim_end().ends_with("</html>"), "{shown}");
    for tag in ["section", "figure", "svg", "polyline", "text", "table", "tr", "th", "td", "dd"] {
        let count = |text: &str| {
            text.matches(&format!("<{tag} ")).count() + text.matches(&format!("<{tag}>")).count()
        };
        assert!(count(&page) > 0, "{tag}");
        assert_eq!(count(&shown), count(&page), "{tag}");
    }
    let light = browser.picture(&site.path("report.html"), &site.path("light.png"), &[]);
    let dark = ["--blink-settings=preferredColorScheme=0"];
    let dark = browser.picture(&site.path("report.html"), &site.path("dark.png"), &dark);
    assert!(light != dark, "the page is the same in the dark");
    check_picture(&light);
    check_picture(&dark);
}

/// A picture of the size that was asked for, with something on it.
fn check_picture(picture: &[u8]) {
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"));
    let (width, height) = BROWSER_PICTURE_SIZE;
    assert_eq!(picture[16..24], [width.to_be_bytes(), height.to_be_bytes()].concat());
    assert!(picture.len() > 20_000, "{} bytes", picture.len());
}
