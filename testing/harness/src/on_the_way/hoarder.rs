//! A reverse proxy that passes nothing on before it has all of it, requests and responses alike.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Where each body waits until it is whole. It ends with the program.
#[derive(Debug)]
pub struct Hoarder {
    /// Of the server, by way of the proxy.
    pub url: String,
}

impl Hoarder {
    /// One in front of the server of HTTP at this URL.
    pub fn new(server_url: &str) -> Hoarder {
        let rest = server_url.strip_prefix("http://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        let authority = authority.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let authority = authority.clone();
                // Who has left needs no answer.
                thread::spawn(move || drop(exchange(client, &authority)));
            }
        });
        Hoarder { url }
    }
}

fn exchange(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let mut body = vec![0; value("content-length: ").map_or(0, |len| len.parse().unwrap())];
    if value("expect: ").is_some() {
        client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    client.read_exact(&mut body)?;
    let mut server = TcpStream::connect(server)?;
    server.write_all(text.replace("expect: 100-continue\r\n", "").as_bytes())?;
    server.write_all(&body)?;
    let mut response = Vec::new();
    server.read_to_end(&mut response)?;
    client.write_all(&response)?;
    client.shutdown(Shutdown::Write)
}
