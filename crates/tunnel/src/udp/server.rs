//! The server's end: from the session to a socket for each flow, and back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_net::{AcceptedDatagrams, DatagramChannel, DatagramOptions};
use anabranch_observe::Transport;
use anabranch_secure::PublicKey;
use bytes::Bytes;
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::flow_socket::FlowSocket;
use super::message::{self, Message};
use super::{FlowOptions, IDLE_AFTER, MAX_BATCH, MAX_FLOWS, with_buffer};
use crate::connection::Dialer;
use crate::policy::{Policy, Request};
use crate::tun;

/// Maximum number of datagrams that wait for a flow's target or socket; more are dropped.
const MAX_QUEUED: usize = 256;

/// Maximum bytes in all these queues of a session; more are dropped. A flow waits up to 10 s for
/// its target, and a session has 1,024 flows.
pub(super) const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Serves all sessions that are opened; their IP packets go through the interface, if there is one.
pub async fn serve_all(
    accepted: UnboundedReceiver<AcceptedDatagrams>,
    policy: Arc<Policy>,
    tun_server: Option<Arc<tun::server::ServerTun>>,
) {
    serve_by(accepted, policy, tun_server, Dialer::System).await;
}

pub(crate) async fn serve_by(
    mut accepted: UnboundedReceiver<AcceptedDatagrams>,
    policy: Arc<Policy>,
    tun_server: Option<Arc<tun::server::ServerTun>>,
    dialer: Dialer,
) {
    while let Some(AcceptedDatagrams { peer, channel }) = accepted.recv().await {
        let server = ServerEnd {
            tun: tun::server::Member::new(tun_server.clone(), peer, channel.clone()),
            peer,
            channel,
            policy: Arc::clone(&policy),
            dialer: dialer.clone(),
            flows: BTreeMap::new(),
            room: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
            began_at: Instant::now(),
        };
        tokio::spawn(server.run());
    }
}

/// Flows of a session, which end with it.
pub(super) struct ServerEnd {
    pub(super) peer: PublicKey,
    pub(super) channel: DatagramChannel,
    pub(super) tun: tun::server::Member,
    pub(super) policy: Arc<Policy>,
    pub(super) dialer: Dialer,
    pub(super) flows: BTreeMap<u32, Flow>,
    /// Room for bytes in the queues of all flows.
    pub(super) room: Arc<Semaphore>,
    pub(super) began_at: Instant,
}

pub(super) struct Flow {
    pub(super) queue: mpsc::Sender<Queued>,
    pub(super) used: Arc<LastUse>,
    task: AbortHandle,
}

/// A datagram for a flow's socket.
pub(super) struct Queued {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Time of the last datagram in either direction, in milliseconds since the session began.
pub(super) struct LastUse {
    began_at: Instant,
    millis: AtomicU64,
}

impl LastUse {
    pub(super) fn set(&self) {
        let millis = self.began_at.elapsed().as_millis() as u64;
        self.millis.store(millis, Ordering::Relaxed);
    }
}

impl ServerEnd {
    async fn run(mut self) {
        while let Some(datagram) = self.channel.recv().await {
            if tun::is_of_tun(&datagram) {
                self.tun.take(datagram).await;
                continue;
            }
            match Message::read(datagram) {
                Some((flow, Message::Datagram(bytes))) => {
                    let is_known = self.forward(flow, bytes);
                    if !is_known {
                        self.channel.send(message::unknown(flow));
                    }
                }
                Some((
                    flow,
                    Message::Opening {
                        target,
                        options,
                        bytes,
                    },
                )) => {
                    self.open(flow, &target, options, bytes);
                }
                // Messages of servers, and unknown ones.
                _ => {}
            }
        }
    }

    /// Forwards a datagram. Returns whether the flow exists.
    fn forward(&mut self, number: u32, bytes: Bytes) -> bool {
        let Some(flow) = self.flows.get(&number) else {
            return false;
        };
        if flow.queue.is_closed() {
            self.flows.remove(&number);
            return false;
        }
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes.len() as u32);
        // If the target's socket blocks, datagrams are lost.
        if let Ok(_room) = room {
            let _ = flow.queue.try_send(Queued { bytes, _room });
        }
        true
    }

    pub(super) fn open(&mut self, number: u32, asked: &str, options: FlowOptions, bytes: Bytes) {
        if !self.forward(number, bytes.clone()) {
            let request = match self.policy.request(self.peer, Transport::Udp, asked) {
                Ok(request) => request,
                Err(answer) => {
                    self.channel.send(message::refused(number, answer));
                    return;
                }
            };
            self.make_room();
            self.start(number, request, options);
            self.forward(number, bytes);
        }
        self.channel.send(message::known(number));
    }

    fn make_room(&mut self) {
        self.flows.retain(|_, flow| !flow.queue.is_closed());
        if self.flows.len() >= MAX_FLOWS {
            let oldest = self
                .flows
                .iter()
                .min_by_key(|(_, flow)| flow.used.millis.load(Ordering::Relaxed))
                .map(|(number, _)| *number);
            if let Some(number) = oldest {
                self.flows.remove(&number);
            }
        }
    }

    fn start(&mut self, number: u32, request: Request, options: FlowOptions) {
        let (queue, datagrams) = mpsc::channel(MAX_QUEUED);
        let used = Arc::new(LastUse {
            began_at: self.began_at,
            millis: AtomicU64::new(0),
        });
        used.set();
        let (policy, dialer) = (Arc::clone(&self.policy), self.dialer.clone());
        let last_use = Arc::clone(&used);
        let answers = Answers {
            number,
            options: options.of_datagram(number),
            channel: self.channel.clone(),
        };
        let carried = tokio::spawn(async move {
            let connected = async {
                let addresses = policy.addresses(&request).await?;
                let (socket, address) = FlowSocket::connect(&dialer, &addresses).await?;
                policy.connected(&request, address);
                Ok(socket)
            };
            match connected.await {
                Ok(socket) => carry(&socket, datagrams, &answers, &last_use).await,
                Err(answer) => {
                    let refused = message::refused(number, answer);
                    answers.channel.send(refused);
                }
            }
        });
        let task = carried.abort_handle();
        self.flows.insert(number, Flow { queue, used, task });
    }
}

/// The way back of a flow's datagrams.
struct Answers {
    number: u32,
    options: DatagramOptions,
    channel: DatagramChannel,
}

/// Carries a flow's datagrams both ways until it is idle, or its queue is closed.
async fn carry(
    socket: &FlowSocket,
    mut datagrams: Receiver<Queued>,
    answers: &Answers,
    used: &LastUse,
) {
    loop {
        let next = async {
            tokio::select! {
                datagram = datagrams.recv() => {
                    let Some(datagram) = datagram else { return false };
                    // Errors, for example because nobody listens or the datagram is too long, are
                    // for the application to detect, as on any network.
                    let _ = socket.send(&datagram.bytes).await;
                }
                _ = socket.readable() => answers.take_all(socket),
            }
            true
        };
        match tokio::time::timeout(IDLE_AFTER, next).await {
            Ok(true) => used.set(),
            Ok(false) | Err(_) => return,
        }
    }
}

impl Answers {
    fn take_all(&self, socket: &FlowSocket) {
        for _ in 0..MAX_BATCH {
            let taken = with_buffer(|buffer| {
                let length = socket.try_recv(buffer)?;
                let datagram = message::datagram(self.number, None, &buffer[..length]);
                self.channel.send_with(datagram, self.options);
                Ok(())
            });
            if taken.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return;
            }
        }
    }
}
