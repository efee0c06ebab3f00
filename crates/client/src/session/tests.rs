//! Every state against every message, and what each answer of the server leads to.

use super::*;
use model::{Counter, DatabaseId, Progress, RemoteSchema, Watermark};
use protocol::{Failed, TableDownload, UploadBegin, UploadEnd};

const TABLES: usize = 2;

fn welcome(upload: UploadState, schema_change_follows: bool) -> Message {
    Message::Welcome(answer(upload, schema_change_follows))
}

/// A schema change follows the upload.
fn welcome_before_change(upload: UploadState) -> Message {
    Message::Welcome(Welcome { schema_change_after_upload: true, ..answer(upload, false) })
}

fn answer(upload: UploadState, schema_change_follows: bool) -> Welcome {
    Welcome {
        script_version: None,
        protocol_version: 2,
        capabilities: protocol::Capabilities::NONE,
        frame_bytes_max: None,
        schema_change_after_upload: false,
        unknown_tables: Vec::new(),
        kept_tables: Vec::new(),
        waiting_tables: Vec::new(),
        server: String::new(),
        database_id: DatabaseId("d".into()),
        progress: Some(Progress(0)),
        upload,
        schema_change_follows,
        token: None,
        authentication: None,
    }
}

fn schema_change() -> Message {
    let table = model::PublishedTable {
        compress: true,
        fires: false,
        name: "t".into(),
        columns: vec!["id".into()],
        key: vec![0],
        direction: model::Direction::Both,
        create: Vec::new(),
        fingerprint: "t".into(),
    };
    let tables = vec![table.clone(), table];
    let schema = RemoteSchema { tables, fingerprint: "f".into() };
    Message::SchemaChange(Box::new(SchemaChange { schema, renamed: Vec::new() }))
}

fn rows(table: u16, operation: Operation, count: u32) -> Message {
    Message::Rows(RowsFrame { table, operation, count, bytes: Vec::new() })
}

fn begin(modes: &[DownloadMode]) -> Message {
    let tables = modes.iter().map(|&mode| TableDownload::new(mode)).collect();
    Message::DownloadBegin(DownloadBegin {
        tables,
        restored: false,
        deletes_lost: false,
        waiting_tables: Vec::new(),
        receipt: None,
    })
}

fn end(rows: u64, watermarks: usize) -> Message {
    let watermark = Watermark::new(Vec::new()).unwrap();
    Message::DownloadEnd(DownloadEnd {
        rows,
        watermarks: vec![Some(watermark); watermarks],
        counter: Counter(1),
        receipt: None,
        acknowledge: false,
    })
}

/// One of each, in a form that fits the conversation of the states below.
fn messages() -> Vec<Message> {
    vec![
        welcome(UploadState::Send, false),
        schema_change(),
        Message::UploadCommitted(UploadCommitted::default()),
        begin(&[DownloadMode::Changes, DownloadMode::None]),
        rows(0, Operation::Upsert, 3),
        Message::Rejects(protocol::Rejects { rejects: Vec::new() }),
        end(0, TABLES),
        Message::UploadBegin(UploadBegin { previous: Progress(0), progress: Progress(0) }),
        Message::UploadEnd(UploadEnd { rows: 0 }),
        Message::Acknowledgement(protocol::Acknowledgement { counter: Counter(1) }),
        Message::Hello(Box::new(hello())),
    ]
}

fn hello() -> protocol::Hello {
    protocol::Hello {
        protocol_version: 2,
        capabilities: protocol::Capabilities::NONE,
        client: String::new(),
        database: None,
        remote_id: model::RemoteId::new("r").unwrap(),
        user: model::UserName::new("u").unwrap(),
        credential: protocol::Credential::Token(String::new()),
        script_version: None,
        publications: Vec::new(),
        database_id: None,
        mode: Mode::Full,
        progress: Progress(0),
        outcome: protocol::LastUpload::Known,
        counter: Counter(0),
        nonce_confirmed: model::Nonce(0),
        nonce_attempt: model::Nonce(1),
        attempt: 1,
        file_secret: None,
        receipt: None,
        schema_fingerprint: None,
        watermarks: Vec::new(),
        former_watermarks: Vec::new(),
        upload_follows: false,
        new_password: None,
        parameters: protocol::Parameters::default(),
        kept_tables: Vec::new(),
        unknown_tables: Vec::new(),
        verify_follows: false,
        wanted_rows: Vec::new(),
        resume: Vec::new(),
        was_cut: false,
        settled_rejects: Vec::new(),
    }
}

fn states() -> Vec<State> {
    vec![
        State::ExpectWelcome,
        State::ExpectSchemaChange { upload: UploadState::Send },
        State::ExpectUploadCommitted { schema_change_follows: false },
        State::ExpectUploadCommitted { schema_change_follows: true },
        State::ExpectLateSchemaChange,
        State::ExpectDownloadBegin,
        State::ExpectRows { modes: vec![DownloadMode::Changes, DownloadMode::None], rows: 0 },
        State::Ended,
    ]
}

fn session(state: State) -> Session {
    let mut session = Session::new(Mode::Full, true, TABLES);
    session.state = state;
    session
}

fn receive(session: &mut Session, message: Message) -> Result<Answer, Failure> {
    session.receive(message)
}

// S11
#[test]
fn every_message_is_expected_in_exactly_the_states_of_the_table() {
    // Rows: states. Columns: messages, in the order of `messages`.
    let table = [
        "+---------",
        "-+--------",
        "--+-------",
        "--+-------",
        "-+--------",
        "---+------",
        "----+++---",
        "----------",
    ];
    assert_eq!(table.len(), states().len());
    for (state, expected) in table.iter().enumerate() {
        for (message, expected) in expected.chars().enumerate() {
            let mut session = session(states().remove(state));
            let message = messages().remove(message);
            let name = message.name();
            let result = receive(&mut session, message);
            let place = format!("{name} in {:?}", states()[state]);
            match (expected, result) {
                ('+', result) => assert!(result.unwrap().instruction.is_some(), "{place}"),
                (_, result) => {
                    assert_eq!(result.unwrap_err().code(), Code::UnexpectedMessage, "{place}");
                    assert_eq!(session.state, State::Ended, "{place} ends the conversation");
                }
            }
        }
    }
}

#[test]
fn heartbeat_failure_and_the_end_are_understood_everywhere() {
    for number in 0..states().len() {
        let state = || states().remove(number);
        let ended = state() == State::Ended;
        let mut with_heartbeat = session(state());
        let heard = receive(&mut with_heartbeat, Message::Heartbeat);
        if ended {
            assert_eq!(heard.unwrap_err().code(), Code::UnexpectedMessage);
        } else {
            assert_eq!(heard.unwrap(), Answer { instruction: None, then: Then::Listen });
            assert_eq!(with_heartbeat.state, state(), "a heartbeat changes nothing");
        }
        let failed = Failed::from(&Failure::new(Code::ServerFull, "full").retry_after_s(7));
        let failure = receive(&mut session(state()), Message::Failed(failed)).unwrap_err();
        let expected = if ended { Code::UnexpectedMessage } else { Code::ServerFull };
        assert_eq!(failure.code(), expected);
        let closed = session(state()).closed();
        assert_eq!(closed.code(), Code::ConnectionLost);
    }
}

/// The answer `upload` to a Hello of `mode`: the state after it, or none if it is refused.
fn check_welcome(mode: Mode, sent: bool, upload: UploadState, change: bool, expected: &str) {
    let mut session = Session::new(mode, sent, TABLES);
    let place = format!("{mode:?}, sent {sent}, {upload:?}, schema change {change}");
    let answer = receive(&mut session, welcome(upload, change));
    check_answer(answer, &session, &place, expected);
}

/// Likewise where the server wants the upload under the tables that the remote holds.
fn check_welcome_before_change(mode: Mode, sent: bool, upload: UploadState, expected: &str) {
    let mut session = Session::new(mode, sent, TABLES);
    let place = format!("{mode:?}, sent {sent}, {upload:?}, schema change behind the upload");
    let answer = receive(&mut session, welcome_before_change(upload));
    check_answer(answer, &session, &place, expected);
}

fn check_answer(answer: Result<Answer, Failure>, session: &Session, place: &str, expected: &str) {
    match answer {
        Err(failure) => {
            assert_eq!(failure.code(), Code::UnexpectedMessage, "{place}");
            assert_eq!("refused", expected, "{place}");
        }
        Ok(answer) => {
            let names = names(&answer).join(" ");
            let text = format!("{names}, then {}", session.state.expected());
            assert_eq!(text, expected, "{place}");
        }
    }
}

/// What an answer has us do.
fn names(answer: &Answer) -> Vec<&'static str> {
    let then = match answer.then {
        Then::Listen => None,
        Then::Upload => Some("upload"),
        Then::Acknowledge(_) => Some("acknowledge"),
        Then::Finish => Some("finish"),
    };
    answer.instruction.iter().map(name).chain(then).collect()
}

fn name(instruction: &Instruction) -> &'static str {
    match instruction {
        Instruction::Agree(_) => "agree",
        Instruction::ChangeSchema(_) => "change",
        Instruction::ChangeSchemaBehindUpload(_) => "change behind",
        Instruction::NoteCommitted(_) => "committed",
        Instruction::BeginDownload(_) => "begin",
        Instruction::KeepRows(_) => "rows",
        Instruction::KeepTold(_) => "rejects",
        Instruction::KeepPosition(_) => "position",
        Instruction::Apply(_) => "apply",
    }
}

#[test]
fn welcome_leads_to_what_it_says() {
    use UploadState::{None, Send, Taken};
    for mode in [Mode::Full, Mode::UploadOnly] {
        check_welcome(mode, true, Taken, false, "agree, then UploadCommitted");
        check_welcome(mode, true, Taken, true, "refused");
        check_welcome(mode, false, Taken, false, "refused");
        check_welcome(mode, true, Send, false, "agree upload, then UploadCommitted");
        check_welcome(mode, false, Send, false, "agree upload, then UploadCommitted");
        check_welcome(mode, true, Send, true, "agree, then SchemaChange");
        check_welcome(mode, true, None, false, "refused");
    }
    check_welcome(Mode::DownloadOnly, false, None, false, "agree, then DownloadBegin");
    check_welcome(Mode::DownloadOnly, false, None, true, "agree, then SchemaChange");
    check_welcome(Mode::DownloadOnly, false, Send, false, "refused");
    check_welcome(Mode::Ping, false, None, false, "agree finish, then nothing");
    check_welcome(Mode::Ping, false, None, true, "agree finish, then nothing");
}

// Trap 24
#[test]
fn an_upload_under_the_held_tables_is_followed_by_the_new_ones() {
    use UploadState::{None, Send, Taken};
    for mode in [Mode::Full, Mode::UploadOnly] {
        check_welcome_before_change(mode, true, Taken, "agree, then UploadCommitted");
        check_welcome_before_change(mode, true, Send, "agree upload, then UploadCommitted");
        check_welcome_before_change(mode, false, Taken, "refused");
    }
    for mode in [Mode::DownloadOnly, Mode::Ping] {
        check_welcome_before_change(mode, false, None, "refused");
    }
    let follow = |mode| {
        let mut session = Session::new(mode, false, 0);
        receive(&mut session, welcome_before_change(Send)).unwrap();
        let committed = Message::UploadCommitted(UploadCommitted::default());
        receive(&mut session, committed).unwrap();
        session
    };
    let mut session = follow(Mode::Full);
    let answer = receive(&mut session, schema_change()).unwrap();
    assert_eq!(names(&answer), ["change behind"]);
    assert_eq!(session.state, State::ExpectDownloadBegin);
    assert_eq!(session.tables, TABLES, "what follows is of the new schema");
    assert_eq!(follow(Mode::UploadOnly).state, State::Ended, "the new tables are for later");
}

#[test]
fn a_welcome_that_contradicts_itself_is_refused() {
    let mut both = answer(UploadState::Send, true);
    both.schema_change_after_upload = true;
    let mut session = Session::new(Mode::Full, false, TABLES);
    let failure = receive(&mut session, Message::Welcome(both)).unwrap_err();
    assert_eq!(failure.code(), Code::UnexpectedMessage);
    let mut none = answer(UploadState::Send, false);
    none.unknown_tables = vec![0, TABLES as u16];
    let mut session = Session::new(Mode::Full, false, TABLES);
    let failure = receive(&mut session, Message::Welcome(none)).unwrap_err();
    assert_eq!(failure.code(), Code::MalformedMessage);
}

#[test]
fn a_schema_change_leads_on_to_the_upload_or_the_download() {
    let check = |mode, upload, expected: &[&str], next| {
        let mut session = Session::new(mode, false, 0);
        receive(&mut session, welcome(upload, true)).unwrap();
        let answer = receive(&mut session, schema_change()).unwrap();
        assert_eq!((names(&answer).as_slice(), session.state.expected()), (expected, next));
        assert_eq!(session.tables, TABLES, "what follows is of the new schema");
    };
    check(Mode::Full, UploadState::Send, &["change", "upload"], "UploadCommitted");
    check(Mode::DownloadOnly, UploadState::None, &["change"], "DownloadBegin");
}

#[test]
fn an_upload_only_conversation_ends_with_the_acknowledgement() {
    let mut session = Session::new(Mode::UploadOnly, true, TABLES);
    receive(&mut session, welcome(UploadState::Taken, false)).unwrap();
    let committed = Message::UploadCommitted(UploadCommitted::default());
    let answer = receive(&mut session, committed).unwrap();
    assert_eq!(answer.then, Then::Finish);
    assert_eq!(session.state, State::Ended);
}

#[test]
fn a_download_is_acknowledged_where_its_end_asks_for_it() {
    let mut session = session(State::ExpectDownloadBegin);
    receive(&mut session, begin(&[DownloadMode::Changes, DownloadMode::None])).unwrap();
    let Message::DownloadEnd(mut end) = end(0, TABLES) else { unreachable!() };
    end.acknowledge = true;
    let answer = receive(&mut session, Message::DownloadEnd(end)).unwrap();
    assert_eq!(answer.then, Then::Acknowledge(Counter(1)));
    assert_eq!(
        (names(&answer).join(" ").as_str(), &session.state),
        ("apply acknowledge", &State::Ended)
    );
}

// S4
#[test]
fn a_download_that_does_not_add_up_is_not_applied() {
    let check = |messages: Vec<Message>| {
        let mut session = session(State::ExpectDownloadBegin);
        let mut result = Ok(Answer { instruction: None, then: Then::Listen });
        for message in messages {
            result = receive(&mut session, message);
        }
        assert_eq!(result.unwrap_err().code(), Code::MalformedMessage);
    };
    let both = [DownloadMode::Changes, DownloadMode::None];
    check(vec![begin(&[DownloadMode::Changes])]);
    check(vec![begin(&both), rows(0, Operation::Upsert, 3), end(2, TABLES)]);
    check(vec![begin(&both), end(0, 1)]);
    check(vec![begin(&both), rows(1, Operation::Upsert, 1)]);
    check(vec![begin(&both), rows(9, Operation::Upsert, 1)]);
    check(vec![begin(&both), rows(0, Operation::Insert, 1)]);
    check(vec![begin(&both), rows(0, Operation::Update, 1)]);
}
