//! Every error code that a user can see, with its page of the manual.
//!
//! One flat table. The doc comment of an entry *is* its page in `docs/reference/errors.md`,
//! which `cargo run -p xtask -- generate` writes: what happened, when it is normal, what to do.
//!
//! E1 connection and protocol, E2 the request, E3 the consolidated database, E4 the server,
//! E5 the remote database, E6 configuration and model, E7 single rows, E9 defects, benchmarks.

mod entry;

use crate::actor::Actor;
use entry::codes;

codes! {
    /// The peer does not speak the Syncline protocol. Another program connected to the port, or the
    /// client has the address of another service.
    1001 NotSyncline Remote false "check the address and the port";
    /// The peer uses a protocol version that this program does not support. The message says which
    /// one that is, and which ones the server supports.
    1002 UnsupportedVersion Remote false "update the older of the two programs";
    /// A message cannot be decoded. The peer has a defect, or a program between the two changed the
    /// bytes. The message was ignored.
    1003 MalformedMessage Remote false
        "update both programs; look for a proxy that changes the traffic";
    /// A frame is larger than the receiver accepts: `frame_bytes_max`, or
    /// `unauthenticated_bytes_max` before the first message is accepted.
    1004 FrameTooLarge Remote false
        "raise `frame_bytes_max` on the server, or store smaller values";
    /// A message arrived that is not allowed in this state of the synchronization.
    1005 UnexpectedMessage Maker false "update both programs; if it happens again, report it";
    /// The connection ended in the middle of a synchronization. Nothing is lost: the next
    /// synchronization finds out the outcome of this one.
    1006 ConnectionLost Nobody true "synchronize again";
    /// The peer sent nothing for too long.
    1007 PeerSilent Nobody true "synchronize again; check the network";
    /// The server cannot be reached: the address is wrong, the server is not running, or there is
    /// no network.
    1008 Unreachable Nobody true "check the address, and that `syncline serve` is running there";
    /// Compressed rows cannot be unpacked: they are cut, something follows them, or they have
    /// another number of bytes than announced. The peer has a defect, or a program between the two
    /// changed the bytes. Nothing was applied.
    1010 CompressionBroken Remote false
        "update both programs; look for a proxy that changes the traffic";
    /// Rows arrived that are compressed in a way that this program has not said that it reads, or
    /// where no rows may be compressed.
    1011 CompressionNotAgreed Maker false "update both programs; if it happens again, report it";
    /// Compressed rows need more memory to be unpacked than every reader has: a window of more than
    /// 8 MiB, or a dictionary.
    1012 CompressionWindow Maker false "update the program that sent them";
    /// One side speaks TLS and the other does not: a URL with `tcp://` leads to a port that speaks
    /// TLS, or a URL with `tls://` to one that does not. Nothing secret was sent.
    1020 EncryptionMismatch Remote false
        "write the URL as the server prints it: tls://, https:// and wss:// are encrypted, tcp://, \
         http:// and ws:// are not";
    /// The two sides could not agree on how to encrypt: no version of TLS and no algorithm in
    /// common, or one of them refused what the other showed. The message says what was in the way.
    1021 HandshakeFailed Remote false
        "compare the certificates and the versions of TLS of both sides";
    /// Passwords and rows would cross a network in clear text, and `require_tls` at the server or
    /// `--require-tls` at the remote forbids it. Nothing was sent.
    1022 ClearTextRefused Remote false "use tls:// in place of tcp://";
    /// The address answered over HTTP, but not with Syncline: the path is wrong, or another program
    /// listens there.
    1025 HttpNotSyncline Remote false
        "check the URL: the path before `/sync` must be the one that the server or its proxy has";
    /// The answer does not follow the rules of HTTP, or a program between the two changed it.
    1026 HttpMalformed Remote false "look for a proxy that changes the traffic";
    /// The answer sends the client to another server, or in circles. The client follows within the
    /// same server only: another one would get the password and the rows.
    1027 HttpRedirected Remote false "give the URL that the answer names, if you trust it";
    /// The forward proxy that the environment names does not lead to the server.
    1028 ProxyRefused Remote false "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY";
    /// A proxy in front of the server has no answer from it. The server is not running or
    /// overloaded, or the proxy has waited for less time than it needed.
    1029 GatewayFailed Nobody true
        "synchronize again; if it happens often, raise the proxy's timeouts";

    /// The user is unknown or the password is wrong. Both cases have the same message, so that user
    /// names cannot be guessed.
    2101 AuthenticationFailed Remote false "check the user name and the password";
    /// The session token has expired, was revoked by a change of the password, or was issued by
    /// another database; or a script of the center checks the passwords of this script version.
    2102 TokenRefused Remote false "synchronize with the password to get a new token";
    /// No script version with this name is deployed.
    2103 UnknownScriptVersion Remote false "`syncline scripts show` lists the deployed versions";
    /// The script version has no publication with this name.
    2104 UnknownPublication Remote false "`syncline scripts show` lists the publications";
    /// The upload names a table that is not in the publications of this remote. The whole upload
    /// was refused.
    2105 TableNotPublished Remote false "update the remote's program, or publish the table";
    /// The upload changes a table that is published for download only. The whole upload was
    /// refused.
    2106 DirectionNotPublished Remote false "undo the change, or set `direction = \"both\"`";
    /// The file is a copy of another remote file, or a backup of this one: the server knows a later
    /// state of this remote ID. The copy automatically takes a new remote ID, keeps its pending
    /// changes, and downloads all its rows.
    2107 CopiedRemote Nobody true "synchronize again";
    /// The remote was synchronized with another consolidated database before.
    2108 WrongDatabase Remote false
        "check the address; `syncline remote reset` starts over with a new database";
    /// The upload does not follow the last upload that the server has. The client must first find
    /// out the outcome of its previous upload; it does this automatically.
    2109 OutOfSequence Nobody true "synchronize again";
    /// Another synchronization of the same remote ID is running. Either the consolidated database
    /// works for it, or it is the same or a later attempt of the same file and makes progress. The
    /// next attempt is accepted when it has ended, or when it makes no progress for
    /// `takeover_after_s`.
    2110 AlreadySynchronizing Nobody true "wait, then synchronize again";
    /// Other users may read the file with the password or token, so it is not secret.
    2111 SecretExposed Remote false "chmod 600 the file";
    /// No password or token was given, or the file contains none.
    2112 SecretMissing Remote false "give --password-file or --token-file";
    /// A later synchronization of the same remote ID has replaced this one.
    2113 Superseded Nobody true "synchronize again";
    /// A claim of the user selects the rows of a partition, but it is not a valid value of the
    /// column that it is compared with: for example, it is text and the column is a number. Nothing
    /// was done.
    2114 ClaimInvalid Operator false
        "correct the claim with `syncline user set`, or at the identity provider";
    /// The remote ID belongs to another user. The first synchronization binds a remote ID to its
    /// user. Any other user is refused, and nothing is done. This also happens when a user was
    /// removed and added again: a new user with the same name does not inherit remotes. The file
    /// does not keep a remote ID that was refused.
    2160 RemoteOfAnother Operator false
        "`syncline fleet bind ID --user NAME` gives the remote to a user, or to several";
    /// The file of the consolidated database was replaced or removed while the server ran. The
    /// server still has the old file open, which no other program can find, so it writes nothing.
    /// After a restart it examines the new file, and continues.
    2235 DatabaseReplaced Operator true "restart the server";
    /// A table of Syncline in the remote file (`syncline_...`) is missing, or holds something that
    /// Syncline has not written there: another program has changed it. Nothing was done in part.
    2290 RemoteTablesDamaged Remote false
        "restore the file from a backup, or copy your changes from it and begin with a new file";
    /// The certificate of the server comes from no authority that this remote trusts, or its key is
    /// not the one that `--pin` names. Another program may answer in the place of the server. No
    /// password was sent.
    2320 ServerUntrusted Remote false
        "give --ca-file with the authority of the server, or --pin with its key";
    /// The certificate of the server is not valid at this time: it has ended, or the clock of one
    /// of the two machines is wrong. No password was sent.
    2321 ServerCertificateEnded Operator false
        "renew the certificate of the server, or correct the clock";
    /// The certificate of the server is for other names than the one in the URL. No password was
    /// sent.
    2322 ServerNameDiffers Remote false
        "write the name that is in the certificate, or let the certificate name this one";
    /// The server asks for a certificate of the remote. None was given, it comes from no authority
    /// that the server accepts, or it has ended.
    2323 ClientCertificateNeeded Remote false
        "give --client-certificate and --client-key, which `tls_client_ca` at the server accepts";
    /// The certificate of the remote names another user than the one who synchronizes, or none.
    2324 CertificateOfAnother Remote false
        "give --user as in the certificate; `tls_client_user` at the server says where it is";
    /// A proxy between the remote and the server takes no request of this size (HTTP status 413).
    /// The upload did not reach the server, and stays pending. nginx takes 1 MB unless it is
    /// configured otherwise.
    2325 ProxyTakesLess Operator false
        "raise the limit of the proxy, for nginx `client_max_body_size`";
    /// A program between the remote and the server refuses the request: it wants a password of its
    /// own, or does not let this remote through (HTTP status 401, 403 or 407).
    2326 RefusedOnTheWay Operator false
        "the refusal is not Syncline's: see the log of the proxy or firewall before the server";
    /// A program between the remote and the server counts requests, and has enough of them (HTTP
    /// status 429).
    2327 SlowedOnTheWay Nobody true "synchronize again later";
    /// The new password is empty, longer than 4 KiB, or the same as the old one, or it has fewer
    /// than 8 characters and is kept in the consolidated database. Nothing was done.
    2460 NewPasswordRefused Remote false "choose another password";
    /// The password was to be changed, and this server cannot do that: it is kept in a directory,
    /// or at a service that did not confirm the change; a script checks it and takes no new one; or
    /// a token, a JWT or a certificate was sent in place of it. The password is as it was.
    2461 PasswordNotChanged Remote false
        "change the password where it is kept, and synchronize without --new-password-file";
    /// While the password was being changed, an operator or another remote changed it, or the
    /// user was locked or removed. Nothing was done.
    2462 PasswordChangedMeanwhile Nobody true "synchronize again with the password of now";
    /// The service that knows the users, or a script of the center, says that this user is
    /// synchronizing already (status 5000 to 5999).
    2463 UserSynchronizing Nobody true "wait, then synchronize again";
    /// What the remote has cannot be compared with the consolidated database before it is
    /// synchronized: its next download has a whole table, because it was never downloaded, was
    /// changed, or the database was restored. Nothing was compared.
    2471 SynchronizeFirst Remote false "`syncline sync FILE`, then verify again";

    /// The consolidated database cannot be opened.
    3001 DatabaseUnavailable Operator true
        "check that the database exists and may be read and written";
    /// Another program holds the write lock of the consolidated database for too long, or a lock on
    /// a table. The remote is told to come back after two to seven seconds: a base of two or five
    /// seconds and up to half as much by chance, because nobody knows when that lock goes. With
    /// `sync --watch` each further attempt waits up to twice as long, at most a minute.
    3002 DatabaseBusy Nobody true "wait, or end the long transaction of the other program";
    /// The database has no Syncline system tables.
    3003 NotDeployed Operator false "run `syncline deploy`";
    /// The system tables were created by another version of Syncline than this program, newer or
    /// older, and have another layout. Nothing of them was read or changed.
    3004 DeployedByAnother Operator true
        "use the version that deployed them, or `undeploy` with it and deploy again";
    /// A table, column or trigger is no longer as `deploy` left it. Changes could be missed, so the
    /// table, and those that refer to it, are not synchronized until it is repaired: what is
    /// pending for them stays in the remote, and every synchronization warns. All other tables are
    /// synchronized. This is an error if no table is left. If the table was dropped or renamed on
    /// purpose, declare it in the model: in `dropped_tables`, or with `renamed_from`.
    3005 Drift Operator true "run `syncline check`, then `syncline deploy`";
    /// A script failed. The message contains the error of the database.
    3006 ScriptFailed Operator false "`syncline scripts show` prints the scripts";
    /// The disk of the consolidated database is full or failing. PostgreSQL keeps the room of rows
    /// whose upload failed until the next VACUUM, which needs a little room too.
    3007 DatabaseDiskFull Operator true "free space on the server";
    /// Another server process serves the same file. An SQLite database can have one server. A file
    /// with a second name, a hard link, has none, because another server may know it by that.
    3009 ServedAlready Operator false "stop the other server first";
    /// The file is not an SQLite database, or it is damaged.
    3010 NotADatabase Operator false "check the path; restore the file from a backup";
    /// The file is a remote, so it cannot be a consolidated database.
    3011 RemoteFile Operator false "name the center's database, or `syncline remote detach FILE`";
    /// The database user of Syncline lacks a required right: on the schema `syncline`, or on a
    /// published table; or, where cursors of your own compare times, to see since when the
    /// transactions of other users are open.
    3012 DatabaseRights Operator false
        "grant the rights that the guide to PostgreSQL lists, or deploy as the owner of the tables";
    /// The database server is a standby. It does not know all open transactions, so a download
    /// could be incomplete, and it accepts no uploads.
    3013 NotPrimary Operator true "name the primary, or several hosts to search for it";
    /// The database refused a row of the upload, and the center says that nothing of such an upload
    /// is applied: the script `handle_error`, or `on_error = "cancel"` in the model. The message
    /// names the table of the row. All changes stay pending at the remote.
    3015 UploadCanceled Remote false
        "change or delete the row, then synchronize again; the rest of the upload waits with it";
    /// The same, and the script `handle_error` ended the server for it. Do not synchronize again
    /// before somebody has looked at the center: the next server would end too.
    3016 ServerDrained Operator false
        "look at the log of the server; start it again when the cause is gone";
    /// The PostgreSQL server asks for the plain password (`password` in its `pg_hba.conf`, or a
    /// method that needs it, such as `ldap`), and the connection leaves the machine without
    /// encryption: anyone on the network could read the password. Nothing of the password was sent.
    /// This also happens when another program answers in the place of the server.
    3265 PasswordExposed Operator false
        "add sslmode=verify-full to the URL, or use scram-sha-256 in the server's pg_hba.conf";
    /// The PostgreSQL server asks for an authentication method that the URL does not allow:
    /// `require_auth` names other methods, or the URL has `channel_binding=require` and the server
    /// cannot bind SCRAM to an encrypted connection. Nothing that depends on the password was sent.
    3266 ProofRefused Operator false
        "correct the server's pg_hba.conf, or `require_auth` and `channel_binding` in the URL";
    /// A pooler in front of PostgreSQL shares a session between several clients, by transaction or
    /// by statement, or passes it on without a reset. Settings, prepared statements and locks of
    /// one client would affect another, so nothing is done. A script that runs `DISCARD ALL` or
    /// `RESET ALL` has the same effect.
    3267 PoolerShares Operator false
        "set `pool_mode = session` for this database in the pooler, or connect without it";
    /// While a synchronization used a table, it was dropped or renamed, or lost its triggers.
    /// Nothing of this synchronization was applied. The next one leaves the table out and warns.
    3268 TableWentAway Operator true
        "synchronize again; run `syncline check`, then `syncline deploy`";
    /// The remote must receive a row, because a change to it was rejected or lost a conflict, and
    /// the script `upload_look` fails for what the row contains. The remote keeps its own version
    /// of the row; everything else is applied. Every synchronization tries the row again.
    3290 OwedRowUnreadable Operator false
        "correct the script `upload_look` of the table, or the row";

    /// The server already has as many connections, synchronizations or waiting passwords as its
    /// limits allow. It says when to try again. The time follows from how fast others end.
    4001 ServerFull Nobody true "wait, then synchronize again";
    /// The server is stopping.
    4002 ServerStopping Nobody true "wait, then synchronize again";
    /// Rows that do not fit in memory could not be stored on disk.
    4003 SpillFailed Operator true
        "free space in the temporary folder of this machine; at a server `spill_dir` names it, and \
         `spill_bytes_max` says how much of it is used";
    /// The upload has more bytes than `upload_bytes_max`.
    4004 UploadTooLarge Operator false "raise `upload_bytes_max`";
    /// The server cannot listen on this address.
    4005 CannotListen Operator false "choose another port, or stop the program that uses it";

    /// There were too many wrong passwords of this user from this address. Each further one makes
    /// the next delay longer, up to `password_delay_max_s`. A correct password after the delay ends
    /// it, and so does a quarter of an hour without a wrong password. The same user is not delayed
    /// at other addresses.
    4260 PasswordsSlowed Remote true "wait, then synchronize with the right password";
    /// The memory for rows that are sent and received, `stream_memory_bytes_max`, is used up by
    /// other synchronizations. Rows go to disk then, but this message cannot. Nothing was done. The
    /// remote is told to come back after five to seven seconds, by chance; memory is given back
    /// with each frame, so this does not depend on how fast synchronizations end.
    4265 MemoryShort Nobody true "wait, then synchronize again";
    /// The server had `transfers_max` synchronizations, and this user had most of them, so one was
    /// ended for another user. Committed changes stay, and the next synchronization learns of them.
    4270 PlaceYielded Nobody true
        "wait, then synchronize again; if it happens often, the operator can raise `transfers_max`";

    /// The peer sent or received fewer bytes than `progress_bytes_per_s_min` over
    /// `progress_window_s`, or the server waited for it longer than `patience_s` in all. Signs of
    /// life help only for `patience_s`. Nothing that was committed is lost.
    4271 PeerTooSlow Nobody true
        "synchronize again over a faster network, or let the operator raise `patience_s`";

    /// The remote file is not an SQLite database, or it is damaged.
    5001 RemoteNotADatabase Remote false "check the path";
    /// Another process synchronizes the same remote file.
    5002 RemoteInUse Nobody true "wait until the other synchronization has ended";
    /// Another program holds the write lock of the remote file for too long.
    5003 RemoteBusy Nobody true "end the long transaction of the other program";
    /// The disk of the remote is full or failing. The file was not changed.
    5004 RemoteDiskFull Remote true "free space, then synchronize again";
    /// A table of the remote differs from the published table, and Syncline cannot change it.
    5005 RemoteSchemaDiffers Remote false "rename or drop the table, or `syncline remote reset`";
    /// Your program changed rows during the synchronization, and each time these changes prevented
    /// the download. The changes are kept, and the next synchronization uploads them first.
    5006 ApplyBlocked Nobody true "synchronize again when the application writes less";
    /// The file is not a Syncline remote.
    5007 NotARemote Remote false "check the name; `syncline sync FILE …` makes a file a remote";
    /// Pending changes would be lost.
    5008 PendingChanges Remote false "synchronize first, or give --discard-pending";
    /// A changed row is larger than a message may be: `frame_bytes_max`, or 64 MiB. An update has
    /// the row before and the row now. The row stays pending, and if it is new also the rows that
    /// refer to it; everything else is uploaded. It is uploaded automatically when it is small
    /// enough, or the limit is larger.
    5009 RowTooLarge Remote false
        "store smaller values, or raise `frame_bytes_max` up to 64 MiB";
    /// The remote was created by another version of Syncline than this program, newer or older, and
    /// its tables of Syncline have another layout. Nothing of them was read or changed.
    5010 RemoteMadeByAnother Remote false
        "synchronize and `remote detach` with the version that made it, then synchronize again";
    /// The server and the user are not known yet.
    5011 ServerUnknown Remote false "give --server and --user the first time";
    /// The remote was synchronized with another remote ID. The server's state of the remote belongs
    /// to that ID, so the ID cannot change.
    5012 RemoteIdInUse Remote false "`syncline remote reset` first, or leave --remote-id out";
    /// The file is a consolidated database, so it cannot be a remote.
    5013 ConsolidatedFile Remote false
        "name the file of a remote; if it does not exist, it is created";
    /// A file with a certificate or a key cannot be used: it cannot be read, has no certificate in
    /// PEM format, or the key belongs to another certificate.
    5020 CertificateUnusable Operator false "check the file and its permissions";
    /// A certificate of the server, or of an authority in `tls_client_ca`, ends within 30 days, or
    /// has ended. From then on no remote connects that needs it.
    5021 CertificateEnding Operator false "renew the certificate, then replace its files";
    /// The server takes the PROXY header of its trusted proxies, and a connection of one of them
    /// began with something else. Nobody else can say whose connection it is.
    5022 ProxyHeaderMissing Operator false
        "let the proxy send the header (HAProxy: send-proxy-v2), or set `proxy_protocol = false`";
    /// Over HTTP the server asked for the upload again and again: what it has to leave out changed
    /// each time. Nothing was uploaded, and nothing is lost.
    5030 UploadAskedAgain Nobody true "synchronize again";
    /// What is to be sent over HTTP does not fit on the disk, in the system's temporary folder.
    5031 RequestNotStored Remote true
        "make room on the disk, or set TMPDIR to a folder on a larger one";
    /// A row has left the remote, because it was deleted at the center or is outside of the
    /// partition now, and it had values in columns that are not synchronized: columns of your own,
    /// or columns that are no longer published. The center never had these values. The whole row is
    /// in the reject table.
    5050 OwnValuesGone Remote false "enter the values elsewhere if they are still wanted";
    /// The tables have changed at the center, and the remote has pending changes that were made
    /// with its old table definitions. A synchronization that only downloads cannot upload them
    /// first, so nothing was done.
    5145 ShapeChangeBlocked Remote false
        "synchronize without --download-only: pending changes then go up with the old tables";
    /// Pending changes are in the way of a download: for example, a new row has the UNIQUE value of
    /// a downloaded row, or the download deletes the parent of a new row. Nothing of the download
    /// was applied. The changes must be uploaded first, and this synchronization could not do that:
    /// because of `--download-only`, or because their table waits at the consolidated database.
    5146 DownloadBlocked Remote false
        "synchronize without --download-only; if you did, undo the change that is in the way";
    /// Columns were published that this remote has not received yet, and rows of their table have
    /// pending changes. These can be uploaded after a download has brought the values of the
    /// columns.
    5147 DownloadFirst Remote false "synchronize without --upload-only";
    /// The user of a remote cannot change while changes of the former user are pending: they would
    /// be uploaded with the rights of a user who did not make them.
    5160 UserChangeRefused Remote false "synchronize as the former user first";
    /// The reject table of the remote has no reject with this number.
    5170 NoSuchReject Remote false "`syncline remote rejects FILE` lists the rejects";
    /// The row of the rejected change has changed since, here or at the consolidated database. A
    /// retry would overwrite this change, which the author of the rejected change has not seen.
    5171 RetryOverwrites Remote false
        "look at the current row, then give --force, or change the row yourself";
    /// The rejected change cannot be made again: its table or one of its columns is no longer
    /// uploaded, or the table refuses the row. Nothing was changed, and the reject stays.
    5172 RejectNotRetried Remote false
        "enter the values that are still wanted where they belong now";

    /// A program that drives a conversation by itself went on after its end, or with another remote
    /// than it was begun with. Nothing was done.
    5290 ConversationMisused Remote false
        "begin a new conversation; it continues with what is in the file";
    /// A path that the file is to remember, of a certificate, a key or authorities, is no UTF-8
    /// text. Nothing was sent.
    5450 PathNotRemembered Remote false "give the file or its folder another name";
    /// Rows of the remote are not those that the consolidated database has for it. Another program
    /// has changed them past Syncline, or a disk has: the remote has no pending change for them.
    5470 RemoteDiffers Remote false
        "`syncline remote verify FILE --server --repair` downloads the rows again";
    /// Triggers of a published table were missing, because a program had dropped them, or created
    /// the table again. They are there again. Of changes that were made without them nothing is
    /// known: the next synchronization compares the whole table with the consolidated database, and
    /// records as rejects (E7190) what differs. Of a table that is only uploaded, all rows are
    /// uploaded.
    5471 TriggersMissing Remote false "`syncline sync FILE`, then verify again";

    /// A configuration or model file cannot be read.
    6001 ConfigUnreadable Operator false "`syncline init` writes a complete file";
    /// A configuration or model file has a mistake. The message names the line.
    6002 ConfigInvalid Operator false "correct the line";
    /// The model names a table or column that the database does not have.
    6003 ModelMismatch Operator false "correct the model, or the database";
    /// A table without a primary key cannot be synchronized: its rows have no identity.
    6004 NoPrimaryKey Operator false "add a primary key, or leave the table out";
    /// The file exists already and is not overwritten.
    6005 FileExists Operator false "give --force to overwrite it";
    /// The URL of a database or server is not understood.
    6006 BadUrl Remote false
        "a database is sqlite:PATH or postgres://USER@HOST/DATABASE; a server is tls://, https:// \
         or wss://HOST:PORT, or without encryption tcp://, http:// or ws://HOST:PORT";
    /// A user with this name exists already.
    6007 UserExists Operator false "`syncline user password NAME` changes the password";
    /// There is no user with this name.
    6008 NoSuchUser Operator false "`syncline user list` lists all users";
    /// The table is of a kind that cannot be synchronized.
    6009 UnsupportedTable Operator false "leave the table out of the model";
    /// A file or folder cannot be written.
    6010 CannotWrite Operator false "check the folder and its permissions";
    /// The folder has no benchmark suite: `suite.json` is missing, or has another format.
    6011 SuiteUnreadable Operator false "`syncline bench suite` creates one";
    /// The keys that JWTs are verified with cannot be read, or are not a JSON Web Key Set, or none
    /// of them can be used. A server that runs keeps the keys that it has.
    6012 JwtKeysUnusable Operator false "correct `jwt_keys` or `jwt_secret_file` in syncline.toml";
    /// The command takes something away that cannot be given back, and there is no terminal on
    /// which it could ask. Nothing was changed; the message says what it would do. The exit code is
    /// 2.
    6013 NotConfirmed Operator false
        "give --yes to do it, or --dry-run to see more of it";
    /// A password of fewer than 8 characters was to be set for a user. Nothing was changed.
    6014 PasswordTooShort Operator false "choose a longer password, or give --weak";
    /// The peer breaks the rules of WebSocket, or sends text where only binary messages are
    /// expected. The connection is closed with 1002 or 1003.
    6020 WebSocketBroken Remote false
        "look for a program between the two that changes the traffic, or correct the client";
    /// A message of WebSocket has more than 256 KiB. The connection is closed with 1009.
    6021 WebSocketMessageTooLarge Remote false
        "send smaller messages: they may end anywhere within a frame of the protocol";
    /// The server, or a proxy before it, does not go over to WebSocket. Most often a proxy does not
    /// pass the lines `Upgrade` and `Connection` on; nginx needs two more lines for that.
    6022 WebSocketNotPassed Operator false
        "let the proxy pass `Upgrade` on: docs/guides/reverse-proxy.md, nginx; or use https://";
    /// The service or the directory that knows the users (`authenticate_user_url`, `ldap_url`) did
    /// not answer in time, or could not be reached, or its certificate is not trusted, or it says
    /// that it cannot answer now. Nobody knows whether the password is right, so the attempt may be
    /// repeated, and it does not count as a wrong password. The log of the server says what was in
    /// the way.
    6030 LoginServiceSilent Nobody true "synchronize again; if it goes on, ask the operator";
    /// The service or the directory that knows the users gave an answer that is not as described,
    /// or claims that cannot be used, or does not let the server search. The log of the server says
    /// what is wrong with it. The attempt does not count as a wrong password.
    6031 LoginAnswerUnusable Operator true "look into the log of the server";
    /// The password is right and its time is over: by its age, at the word of an operator, or of a
    /// service that knows the users. A synchronization that changes the password is accepted.
    6032 PasswordExpired Remote false
        "synchronize with --new-password-file, or change the password where it is kept";
    /// A remote sends more authentication parameters than a Hello may have: at most 255, of 8 KiB
    /// together. Nothing was sent.
    6033 ParametersTooLarge Remote false "send fewer or shorter parameters";
    /// Two different spellings of the table's key may be equal for the consolidated database, as in
    /// a nondeterministic collation, citext, interval, jsonb or numeric without a scale. Remotes
    /// compare keys character by character: they would have two rows where the consolidated
    /// database has one, or lose a row by a change of spelling. Give the column a type with one
    /// spelling for each value (text in a deterministic collation, numeric with a scale, uuid),
    /// give the table another primary key, or leave it out.
    6150 AmbiguousKey Operator false
        "give the key a type with one spelling for each value, or leave the table out";
    /// A script that you wrote has a mistake, or one is missing. Each line of the message names a
    /// file, a line and a column. Nothing was deployed.
    6151 ScriptInvalid Operator false "correct the files below `scripts`, then deploy again";
    /// A published table or column was dropped or renamed, and no model declares it, but remotes
    /// may still upload changes of it. Nothing was deployed.
    6155 UndeclaredChange Operator false
        "write `renamed`, `dropped`, `renamed_from` or `dropped_tables` in the model";
    /// The consolidated database has no remote with this ID.
    6160 NoSuchRemote Operator false "`syncline fleet list` lists all remotes";
    /// A remote is bound to too many users. Open it to all users instead.
    6161 TooManyUsers Operator false "bind it to fewer users, or give --any";
    /// The consolidated database has no reject, or no conflict, with this number: it never existed,
    /// or it was purged.
    6170 NoSuchNote Operator false
        "`syncline rejects list` and `syncline conflicts list` show the numbers";
    /// The row of a conflict was not changed: it has changed since, its table is not published any
    /// more, or the note does not have all of its values. The conflict stays in the list.
    6171 ConflictNotResolved Operator false
        "look at the row as it is now; give --force, or change the row yourself";

    /// The row would break a UNIQUE constraint of the consolidated database.
    7001 RowNotUnique Remote false "change the value, then synchronize again";
    /// The row breaks a CHECK or NOT NULL constraint of the consolidated database. Or SQLite cannot
    /// run what the database has there, such as a trigger that calls a function of an application;
    /// `syncline check` names it.
    7002 RowRefused Remote false "change the value, then synchronize again";
    /// The row refers to a row that does not exist, or other rows refer to the deleted row.
    7003 RowReferences Remote false "the other row was deleted in the meantime, or never arrived";
    /// A trigger of the consolidated database refused the row, or row-level security hides it.
    7004 RowVetoed Remote false "the message is the trigger's";
    /// The consolidated database was restored to an earlier state that lacks this row.
    7005 RowLostByRestore Operator false "enter the row again if it is still wanted";
    /// The row is outside the partition of this remote, or the change would have moved it out. The
    /// row has left the partition since the remote received it, or was never in it. The row is kept
    /// in the reject table and disappears from the remote.
    7006 RowOutsideSubscription Remote false "a user whose partition has the row can change it";
    /// Another row with this key was at the consolidated database before this new one: somebody
    /// else has given a row the same key. The row there stays; the rule of the table may have
    /// filled its empty columns. The row is kept in the reject table as it was here, and the remote
    /// has the other one. Rows that were entered for it are rejected too (E7008). A row that was
    /// deleted and entered again at its remote is a new row too; if it was deleted at the
    /// consolidated database in the meantime and stays so, the message says that.
    7007 RowKeyTaken Remote false "enter the row again with another key; UUIDs never meet";
    /// The row refers to a new row that was rejected because another row has its key (E7007). It
    /// would have become part of that other row. The row is kept in the reject table.
    7008 RowOfKeyTaken Remote false "enter the row again for the row that it belongs to";
    /// The change met another change of the same row, and lost something by the rule of the table.
    /// `remote conflicts` shows the row that lost and the row that stayed. This is no reject.
    7009 ConflictLost Remote false "`syncline remote conflicts FILE` shows both rows";
    /// The change gave a value to a column that the consolidated database no longer publishes, or
    /// publishes with another name. The row is kept in the reject table as it was here.
    7145 ColumnLost Remote false "enter the value again where it belongs now";
    /// The consolidated database does not know the table, or does not know this remote's definition
    /// of it, so it could not interpret the change. The row is kept in the reject table as it was
    /// here.
    7146 ShapeUnknown Remote false "enter the change again in the table as it is now";
    /// The table was not published here for some time, and is published again. The row in it
    /// differs from the row at the center, or the center does not have it. Changes were not
    /// recorded in that time, so it is unknown who changed the row. The remote now has the row of
    /// the center, and the reject table has the row that was here. The same is recorded of changes
    /// that had to wait for the values of new columns and were in the way of their download.
    7147 RowDiffersOnReturn Remote false "change the row again, if the rejected values are right";
    /// The consolidated database cannot read the key of the row as a value of the column's type, so
    /// the row cannot exist there. It disappears from the remote and is kept in the reject table.
    7150 RowKeyUnreadable Remote false "enter the row with another key";
    /// The row has a value for a column that the consolidated database no longer has. The other
    /// columns of the row were uploaded; the whole row is kept in the reject table.
    7155 ColumnDropped Remote false "enter the values that are still wanted into another column";
    /// The consolidated database was, or may have been, restored to an earlier state that has this
    /// row with other values. The row is kept in the reject table as it was.
    7160 RowSetBack Operator false "enter the values again if they are still wanted";
    /// The consolidated database was, or may have been, restored to an earlier state that has this
    /// row. The row had been deleted or had left the remote; or it was created in the meantime.
    7161 RowBroughtBack Operator false "delete the row again if it is not wanted";
    /// The row at the consolidated database is larger than a message may be: `frame_bytes_max`, or
    /// 64 MiB. The remote does not get the row, or keeps the old one; everything else is applied.
    /// The row is sent automatically when it is small enough, or the limit is larger.
    7170 RowTooLargeToSend Operator false
        "store smaller values, or raise `frame_bytes_max` up to 64 MiB";
    /// The triggers that record changes of the table were missing for some time, for example
    /// because an application rebuilt the table. The row differs from the row at the center, or the
    /// center does not have it, and it is unknown who changed it. The remote now has the row of the
    /// center, and the reject table has the row that was here. Changes that were recorded before
    /// are uploaded.
    7190 RowNotCaptured Remote false "change the row again, if the rejected values are right";
    /// The change would give the row another key at the consolidated database: the table's key
    /// there has columns that were not the key when the remote received the row. The row keeps its
    /// key; the changed row is kept in the reject table.
    7196 RowKeyFixed Remote false "delete the row, then insert it under its new key";
    /// The row was applied, and then another row of the same upload changed or deleted it: its
    /// parent was deleted, and the foreign key of the consolidated database acts on the children.
    /// The row is kept in the reject table.
    7197 RowTakenAlong Remote false "enter the row again if it is wanted without its parent";
    /// The row could not be applied before other rows of the same upload, and so many rows waited
    /// for others already that there was no room for it. The row is kept in the reject table.
    7198 TooManyRowsWait Remote false "synchronize before so many rows exchange their values";

    /// A row was deleted at the consolidated database, or left the partition of this remote, but a
    /// table that is not published refers to it here without `ON DELETE CASCADE` or `SET NULL`. Or
    /// a trigger here that fires for downloads fails at its delete. The row stays; everything else
    /// was applied. When nothing is in the way any longer, the next synchronization deletes the row
    /// and this reject.
    7240 RowHeld Remote false "delete the rows that refer to it, or let them refer to another row";

    /// The table of the remote refuses a downloaded row: because of a CHECK, a NOT NULL or a UNIQUE
    /// index that only the remote has, or because of the type of a column. Or a trigger there that
    /// fires for downloads fails at it. The remote does not get the row, or keeps the old one;
    /// everything else is applied. Every synchronization tries the row again, and this reject is
    /// removed when the table accepts it.
    7245 RowUnfit Remote false "drop the constraint that the consolidated database does not have";

    /// The consolidated database was restored to an earlier state. The table of the row is only
    /// uploaded, so no download shows whether the database still has the row, and it may have
    /// processed and removed it before. Nothing is sent again; the row is still at the remote. At
    /// most 10,000 rows of a table are recorded.
    7430 RowPerhapsLost Operator false
        "look for the row at the consolidated database; if it is missing, enter it again";

    /// A defect of Syncline. Nothing was applied in part.
    9001 Bug Maker false "report it with the log";
    /// A benchmark did not end with the expected rows, or a synchronization carried unexpected
    /// rows. Its figures would be wrong, so there are none. Another program changed the rows, or
    /// rows were lost.
    9002 BenchmarkWrong Maker false "run it again; report it if no other program changed the rows";
    /// A signal ended a benchmark. All that it had created was removed. There are no figures.
    9003 Interrupted Nobody true "run it again";
    /// The processors of a process cannot be chosen. This needs Linux and the rights of its owner.
    9004 CannotPin Operator false "run it as the user of the database, or without --cpus";
    /// The system makes no link of limited speed. This needs Linux, root, and `ip` and `tc`.
    9480 CannotLink Operator false "run it as root with iproute2, or without --link-mbit";
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
