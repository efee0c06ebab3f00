//! Every error code a user can see, each with its page of the manual.
//!
//! One flat table. The doc comment of an entry *is* its page in `docs/reference/errors.md`,
//! which `cargo run -p xtask -- generate` writes: what happened, when it is normal, what to do.
//!
//! E1 the conversation, E2 the request, E3 the consolidated database, E4 the server,
//! E5 the remote database, E6 configuration and model, E7 single rows, E9 our own fault.

/// Who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// Those who use or build the remote.
    Remote,
    /// Those who run the server or the consolidated database.
    Operator,
    /// Nobody: it passes.
    Nobody,
    /// The developers of Syncline.
    Maker,
}

macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])+
        $number:literal $name:ident $actor:ident $retry:literal $hint:literal;
    )+) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Code { $($(#[doc = $doc])+ $name = $number,)+ }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The number behind the `E`.
            pub fn number(self) -> u16 { self as u16 }

            /// The code with this number.
            pub fn from_number(number: u16) -> Option<Code> {
                match number { $($number => Some(Code::$name),)+ _ => None }
            }

            /// Who must act.
            pub fn actor(self) -> Actor { match self { $(Code::$name => Actor::$actor,)+ } }

            /// Whether the same request may succeed later although nobody changed anything.
            pub fn retry(self) -> bool { match self { $(Code::$name => $retry,)+ } }

            /// What to do, unless the failure itself knows better.
            pub fn hint(self) -> &'static str { match self { $(Code::$name => $hint,)+ } }

            /// The page of the manual.
            pub fn manual(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc, "\n",)+),)+ }
            }

            /// The name used in Rust, which is also its heading.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => stringify!($name),)+ }
            }
        }
    };
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "E{}", self.number())
    }
}

codes! {
    /// The peer does not speak the Syncline protocol. Something else connected to the port, or
    /// the client was given the address of another service.
    1001 NotSyncline Remote false "check the address and the port";
    /// The peer speaks a protocol version that this one does not. A server understands its own
    /// version and the one before.
    1002 UnsupportedVersion Remote false "update the older of the two programs";
    /// A message does not decode. Either the peer is broken or something between the two changed
    /// the bytes. Nothing of the message was used.
    1003 MalformedMessage Remote false
        "update both programs; look for a proxy that alters traffic";
    /// A frame is larger than the receiver accepts: `frame_bytes_max`, or
    /// `unauthenticated_bytes_max` before the first message was accepted.
    1004 FrameTooLarge Remote false
        "raise `frame_bytes_max` on the server, or store smaller values";
    /// A message arrived that has no place in this state of the conversation.
    1005 UnexpectedMessage Maker false "update both programs, and report it if it stays";
    /// The connection ended in the middle of a synchronization. Nothing is lost: the next
    /// synchronization learns what became of this one.
    1006 ConnectionLost Nobody true "synchronize again";
    /// The peer sent nothing for too long.
    1007 PeerSilent Nobody true "synchronize again; check the network";
    /// The server cannot be reached: wrong address, not running, or no network.
    1008 Unreachable Nobody true "check the address, and that `syncline serve` is running there";

    /// The user is unknown or the password is wrong. Both give the same message, so that names
    /// cannot be guessed.
    2101 AuthenticationFailed Remote false "check the user name and the password";
    /// The session token is expired, revoked by a password change, or was not issued here.
    2102 TokenRefused Remote false "synchronize with the password to get a new token";
    /// No script version of this name is deployed.
    2103 UnknownScriptVersion Remote false "`syncline scripts show` lists the deployed versions";
    /// No publication of this name is in the script version.
    2104 UnknownPublication Remote false "`syncline scripts show` lists the publications";
    /// The upload names a table that is not in the publications of this remote. The whole upload
    /// was refused.
    2105 TableNotPublished Remote false "update the remote's program, or publish the table";
    /// The upload changes a table that is published for download only. The whole upload was
    /// refused.
    2106 DirectionNotPublished Remote false "undo the change, or set `direction = \"both\"`";
    /// The file is a copy of another remote file, or a backup of this one: the server has seen a
    /// later state of this remote ID. The copy takes a new identity by itself, keeps what it has
    /// not uploaded yet, and downloads all its rows.
    2107 CopiedRemote Nobody true "synchronize again";
    /// The remote was synchronized with another consolidated database before.
    2108 WrongDatabase Remote false
        "check the address; `syncline remote reset` starts over with a new database";
    /// The upload does not follow the last one the server has. The client must learn the outcome
    /// of its previous upload first; it does so by itself.
    2109 OutOfSequence Nobody true "synchronize again";
    /// Another synchronization of the same remote ID is under way and makes progress. When it
    /// ends, or makes none for `takeover_after_s`, the next attempt is accepted.
    2110 AlreadySynchronizing Nobody true "wait, then synchronize again";
    /// A password or token file may be read by others, so what is in it is no secret.
    2111 SecretExposed Remote false "chmod 600 the file";
    /// No password or token was given, or the file does not hold one.
    2112 SecretMissing Remote false "give --password-file or --token-file";
    /// This synchronization was superseded by a later one of the same remote ID.
    2113 Superseded Nobody true "synchronize again";
    /// A claim of the user decides which rows a remote has, and is no value of the column that it
    /// is compared with: text where the column is a number, for example. Nothing was done.
    2114 ClaimInvalid Operator false "correct the claim with `syncline user set`";
    /// The remote holds a table of which columns have got another name or are gone since, and its
    /// program cannot upload under the table that it holds: what waits there would be lost, or
    /// would look like somebody else's change. Nothing was done.
    2155 ProgramTooOld Remote false
        "update the program at the remote; where nothing waits there, `--download-only` goes on";
    /// The remote ID belongs to somebody else. The first synchronization binds it to its user; any
    /// other is refused, and nothing of it is done. So it is where the user was removed and added
    /// again: a namesake inherits no remotes. A remote ID that was only tried is not remembered.
    2160 RemoteOfAnother Operator false
        "`syncline fleet bind ID --user NAME` gives the remote to a user, or to several";
    /// The file of the consolidated database was replaced or removed while the server ran. What it
    /// has open nobody else finds any more, so it writes nothing. After a restart it notices what
    /// the file is, and goes on.
    2235 DatabaseReplaced Operator true "restart the server";

    /// The consolidated database cannot be opened.
    3001 DatabaseUnavailable Operator true
        "check that the database exists and may be read and written";
    /// Another program holds the write lock of the consolidated database for too long.
    3002 DatabaseBusy Nobody true "wait, or end the long transaction of the other program";
    /// The database has no Syncline system tables.
    3003 NotDeployed Operator false "run `syncline deploy`";
    /// The system tables were made by a newer Syncline than this program.
    3004 DeployedByNewer Operator false "update this program";
    /// A table, column or trigger is no longer what `deploy` left: changes could be missed, so
    /// nothing is synchronized until it is repaired.
    3005 Drift Operator false "run `syncline check`, then `syncline deploy`";
    /// A script failed. The message has the database's own words.
    3006 ScriptFailed Operator false "`syncline scripts show` prints the scripts";
    /// The disk of the consolidated database is full or failing.
    3007 DatabaseDiskFull Operator true "free space on the server";
    /// A constraint of the consolidated database refuses the upload as a whole and no row of it
    /// can be blamed.
    3008 ConstraintViolated Operator false "look for foreign keys that are broken already";
    /// Another server process serves the same file. An embedded database has one server.
    3009 ServedAlready Operator false "stop the other server first";
    /// The file is not an SQLite database, or it is damaged.
    3010 NotADatabase Operator false "check the path; restore the file from a backup";
    /// The file is a remote, which cannot be a consolidated database too.
    3011 RemoteFile Operator false "name the consolidated database, or `syncline remote detach`";
    /// The database user that Syncline connects as lacks a right that it needs: on the schema
    /// `syncline`, or on a published table.
    3012 DatabaseRights Operator false
        "grant the rights that the guide to PostgreSQL lists, or deploy as the owner of the tables";
    /// The database server is a standby, which knows too little of the transactions in flight for
    /// a download to be complete, and takes no uploads.
    3013 NotPrimary Operator true "name the primary, or several hosts to search for it";
    /// The PostgreSQL server asks for the password itself (`password` in its `pg_hba.conf`, or a
    /// method that needs it, such as `ldap`), and the connection to it leaves the machine without
    /// encryption: everybody on the way could read it. Nothing of the password was sent. So it is
    /// where somebody else answers in the place of the server, too.
    3265 PasswordExposed Operator false
        "add sslmode=verify-full to the URL, or use scram-sha-256 in the server's pg_hba.conf";
    /// The PostgreSQL server asks for a proof that the URL does not admit: `require_auth` names
    /// other methods, or `channel_binding=require` and the server cannot bind SCRAM to an
    /// encrypted connection. Nothing that follows from the password was sent.
    3266 ProofRefused Operator false
        "correct the server's pg_hba.conf, or `require_auth` and `channel_binding` in the URL";
    /// A pooler in front of PostgreSQL lends a session to several clients, by transaction or by
    /// statement, or hands it on without a reset. Settings, prepared statements and locks of one
    /// client would reach another, so nothing is done. A script that runs `DISCARD ALL` or
    /// `RESET ALL` looks the same.
    3267 PoolerShares Operator false
        "set `pool_mode = session` for this database in the pooler, or connect without it";

    /// The server works on as many synchronizations as it may.
    4001 ServerFull Nobody true "wait, then synchronize again";
    /// The server is stopping.
    4002 ServerStopping Nobody true "wait, then synchronize again";
    /// Rows that do not fit in memory could not be kept on disk.
    4003 SpillFailed Operator true "free space in the temporary folder, or raise `spill_bytes_max`";
    /// The upload has more bytes than `upload_bytes_max`.
    4004 UploadTooLarge Operator false "raise `upload_bytes_max`";
    /// The address cannot be listened on.
    4005 CannotListen Operator false "choose another port, or stop the program that uses it";

    /// Too many passwords of this user from this address were wrong. Each further one makes the
    /// next wait longer, up to `password_delay_max_s`. A right one after the delay ends it, and so
    /// does a quarter of an hour without a wrong one. The user from other addresses is not slowed.
    4260 PasswordsSlowed Remote true "wait, then synchronize with the right password";

    /// The remote file is not an SQLite database, or it is damaged.
    5001 RemoteNotADatabase Remote false "check the path";
    /// Another process synchronizes the same remote file.
    5002 RemoteInUse Nobody true "wait until it is done";
    /// Another program holds the write lock of the remote file for too long.
    5003 RemoteBusy Nobody true "end the long transaction of the other program";
    /// The disk of the remote is full or failing. The file is as it was.
    5004 RemoteDiskFull Remote true "free space, then synchronize again";
    /// A table of the remote is not what the publication says, and cannot be made so.
    5005 RemoteSchemaDiffers Remote false "rename or drop the table, or `syncline remote reset`";
    /// Changes made while the synchronization ran stood in the way of its download each time.
    /// They are kept, and uploaded first next time.
    5006 ApplyBlocked Nobody true "synchronize again when the application writes less";
    /// The file holds no Syncline remote.
    5007 NotARemote Remote false "`syncline sync FILE --server URL --user NAME` makes it one";
    /// Changes that were not uploaded would be lost.
    5008 PendingChanges Remote false "synchronize first, or give --discard-pending";
    /// A row is larger than `frame_bytes_max`.
    5009 RowTooLarge Remote false "store smaller values";
    /// The remote was made by a newer Syncline than this program.
    5010 RemoteMadeByNewer Remote false "update this program";
    /// The server and user to synchronize with are not known yet.
    5011 ServerUnknown Remote false "give --server and --user the first time";
    /// The remote was synchronized under another remote ID. What the server knows about it belongs
    /// to that ID, so it cannot be changed on the way.
    5012 RemoteIdInUse Remote false "`syncline remote reset` first, or leave --remote-id out";
    /// The file is a consolidated database, which cannot be a remote too.
    5013 ConsolidatedFile Remote false "name the file of a remote; one that is missing is made";
    /// The tables have changed at the centre, and changes wait here that were made under the tables
    /// as this remote holds them. A synchronization that only downloads cannot upload them first,
    /// so nothing was done.
    5145 ShapeChangeBlocked Remote false
        "synchronize without --download-only: what waits goes up under the tables as they are here";
    /// What a synchronization that only downloads brought cannot lie beside changes that wait here,
    /// not even in part. Nothing of it was applied; the changes have to go up first.
    5146 DownloadBlocked Remote false
        "synchronize without --download-only, so that what waits goes up first";
    /// Columns were published that this remote has not received yet, and rows of their table were
    /// changed here. They can be uploaded when a download has brought what the columns hold.
    5147 DownloadFirst Remote false "synchronize without --upload-only";
    /// The user of a remote cannot change while changes of the former one wait: they would be
    /// uploaded under the rights of somebody who has not made them.
    5160 UserChangeRefused Remote false "synchronize as the former user first";
    /// No reject of this number is in the reject table of the remote.
    5170 NoSuchReject Remote false "`syncline remote rejects FILE` shows what there is";
    /// A rejected change would be made again to a row that has changed since, here or at the
    /// consolidated database. It would overwrite work that its author has not seen.
    5171 RetryOverwrites Remote false
        "look at the row as it is now, then give --force, or change it yourself";
    /// A rejected change cannot be made again: its table or a column of it is uploaded no more, or
    /// the table refuses the row. Nothing was changed, and the reject stays.
    5172 RejectNotRetried Remote false "enter what is still wanted of it where it belongs now";

    /// A configuration or model file cannot be read.
    6001 ConfigUnreadable Operator false "`syncline init` writes a complete file";
    /// A configuration or model file has a mistake, named with its line.
    6002 ConfigInvalid Operator false "correct the line";
    /// The model names a table or column that the database does not have.
    6003 ModelMismatch Operator false "correct the model, or the database";
    /// A table without a primary key cannot be synchronized: its rows have no identity.
    6004 NoPrimaryKey Operator false "add a primary key, or leave the table out";
    /// A file exists and is not overwritten.
    6005 FileExists Operator false "give --force to overwrite it";
    /// A database or server URL is not understood.
    6006 BadUrl Remote false
        "sqlite:PATH or postgres://USER@HOST/DATABASE for databases, tcp://HOST:PORT for servers";
    /// A user of this name exists.
    6007 UserExists Operator false "`syncline user password NAME` changes the password";
    /// No user of this name exists.
    6008 NoSuchUser Operator false "`syncline user list` shows all";
    /// The table is of a kind that cannot be synchronized.
    6009 UnsupportedTable Operator false "leave the table out of the model";
    /// A file or folder cannot be written.
    6010 CannotWrite Operator false "check the folder and its permissions";
    /// The folder holds no benchmark suite: its `suite.json` is missing, or is something else.
    6011 SuiteUnreadable Operator false "`syncline bench suite` makes one";
    /// Two keys of the table may be one to the consolidated database although they are spelled
    /// differently, as in a nondeterministic collation, citext, interval, jsonb or numeric without
    /// a scale. Remotes tell keys apart letter by letter: they would hold two rows where the
    /// consolidated database has one, or lose one by a change of spelling. A table that was
    /// deployed with such a key before this was checked goes on: `deploy` and `check` name it, and
    /// uploaded rows whose key is not spelled as in the consolidated database are rejected. Give
    /// the column a type that spells each value in one way (text in a deterministic collation,
    /// numeric with a scale, uuid), give the table another primary key, or leave it out.
    6150 AmbiguousKey Operator false
        "give the key a type that spells each value in one way, or leave the table out";
    /// A published table or column is gone, or has got another name, and no model says what became
    /// of it, while remotes may still upload changes of it. Nothing was deployed.
    6155 UndeclaredChange Operator false
        "say `renamed`, `dropped`, `renamed_from` or `dropped_tables` in the model";
    /// The consolidated database knows no remote of this ID.
    6160 NoSuchRemote Operator false "`syncline fleet list` shows all";
    /// A remote is bound to so many users that it may as well be open to all.
    6161 TooManyUsers Operator false "bind it to fewer users, or give --any";
    /// No reject, or no conflict, of this number is kept at the consolidated database: it never
    /// was, or it was purged.
    6170 NoSuchNote Operator false "`syncline rejects list` shows what there is";

    /// The row would break a UNIQUE constraint of the consolidated database.
    7001 RowNotUnique Remote false "change the value, then synchronize again";
    /// The row breaks a CHECK or NOT NULL constraint of the consolidated database.
    7002 RowRefused Remote false "change the value, then synchronize again";
    /// The row refers to a row that does not exist, or others refer to the row it deletes.
    7003 RowReferences Remote false "the other row was deleted meanwhile, or never arrived";
    /// A trigger of the consolidated database refused the row.
    7004 RowVetoed Remote false "the message is the trigger's";
    /// The consolidated database was restored to an earlier state that lacks this row.
    7005 RowLostByRestore Operator false "enter the row again if it is still wanted";
    /// The row is outside what this remote shares, or the change would have moved it there. Either
    /// it has gone to somebody else since the remote saw it, or it never was the remote's. The row
    /// is kept in the reject table and disappears from the remote.
    7006 RowOutsideSubscription Remote false "the user to whom the row belongs now can change it";
    /// The change gave a value to a column that the consolidated database publishes no more, or
    /// under another name. The row is kept in the reject table as it was here.
    7145 ColumnLost Remote false "enter the value again where it belongs now";
    /// The consolidated database does not know the table, or not as this remote holds it, so nobody
    /// there could have understood the change. The row is kept in the reject table as it was here.
    7146 ShapeUnknown Remote false "enter the change again in the table as it is now";
    /// The table had ceased to be published here, and is again. The row that lay in it differs from
    /// the one at the centre, or the centre has none. Nothing was captured meanwhile, so nobody
    /// knows who changed it: the remote has what the centre has now, and the reject table what was
    /// here.
    7147 RowDiffersOnReturn Remote false "change the row again, if what was here is right";
    /// The key of the row is nothing that the consolidated database can read as a value of the
    /// column's type, so there is no such row and never was. It disappears from the remote and is
    /// kept in the reject table.
    7150 RowKeyUnreadable Remote false "enter the row with another key";
    /// The row has a value for a column that the consolidated database does not have any more. The
    /// other columns of the row were uploaded; the whole row is kept in the reject table.
    7155 ColumnDropped Remote false "enter what is still wanted of it into another column";
    /// The consolidated database was, or may have been, restored to an earlier state that has this
    /// row with other values. The row is kept in the reject table as it was.
    7160 RowSetBack Operator false "enter the values again if they are still wanted";
    /// The consolidated database was, or may have been, restored to an earlier state that has this
    /// row, which had gone from the remote, or was made meanwhile.
    7161 RowBroughtBack Operator false "delete the row again if it is not wanted";
    /// The row at the consolidated database is larger than a message may be: `frame_bytes_max`, or
    /// 64 MiB. The remote goes without it, or keeps what it had; everything else arrives. The row
    /// comes by itself once it is small enough, or the limit larger.
    7170 RowTooLargeToSend Operator false
        "store smaller values, or raise `frame_bytes_max` up to 64 MiB";
    /// The triggers that capture changes of the table were gone for a while, as when an application
    /// rebuilds a table. The row differs from the one at the centre, or the centre has none, and
    /// nobody knows who changed it: the remote has what the centre has, and the reject table what
    /// was here. What was captured before is uploaded.
    7190 RowNotCaptured Remote false "change the row again, if what was here is right";
    /// The row was to get a key that another row has at the consolidated database. It keeps its
    /// key there; the row as it should have become is kept in the reject table.
    7195 RowKeyTaken Remote false "choose another key, then synchronize again";
    /// The row was to get another key, and the scripts of its table cannot do that. It keeps its
    /// key; the row as it should have become is kept in the reject table.
    7196 RowKeyFixed Operator false "give the table a script for upload_key_change";
    /// The row arrived, and another row of the same upload took it along: its parent was deleted,
    /// or got another key, and the foreign key of the consolidated database says what becomes of
    /// its children. The row is kept in the reject table.
    7197 RowTakenAlong Remote false "enter the row again if it is wanted without the other";

    /// A row has gone at the consolidated database, or has left what this remote receives, and a
    /// table that is not published refers to it here without `ON DELETE CASCADE` or `SET NULL`. The
    /// row stays; everything else arrived. It goes with the next synchronization after nothing
    /// refers to it any more, and this reject with it.
    7240 RowHeld Remote false "delete what refers to it, or let it refer to another row";

    /// The table of the remote refuses a row that came: a CHECK, a NOT NULL or a UNIQUE index that
    /// only the remote has, or the type of a column. The remote goes without the row, or keeps what
    /// it had; everything else arrived. The row is tried again in every synchronization, and this
    /// reject goes when it fits.
    7245 RowUnfit Remote false "drop the constraint that the consolidated database does not have";

    /// A defect of Syncline. Nothing was half done.
    9001 Bug Maker false "report it with the log";
    /// A benchmark did not end with the rows that it should have ended with, or a synchronization
    /// carried other rows than its own. Its figures would mean nothing, so there are none. Either
    /// somebody else changed the rows meanwhile, or rows were lost.
    9002 BenchmarkWrong Maker false "run it again; report it if nobody else changed the rows";
    /// A signal ended a benchmark. What it had made was removed; figures there are none.
    9003 Interrupted Nobody true "run it again";
    /// The system does not let the benchmark choose the processors on which a process works. That
    /// takes the rights of the process's owner, and Linux.
    9004 CannotPin Operator false "run it as the user of the database, or without --cpus";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(*code));
        }
    }
}
