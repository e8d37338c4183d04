/* The C interface of Anabranch: live video over several networks at once.
 *
 * Functions that return int return 0 or a number above it, or one of the errors below. Then
 * ab_last_error() describes it. Every object may be used by several threads at a time, except for
 * the functions that free it. Functions with a limit in milliseconds block the calling thread until
 * then; all others return at once.
 *
 * The library handles no signals, prints nothing and never ends the process. No thread runs before
 * ab_sender_start() or ab_receiver_start(). The application's functions are called on its own
 * threads alone. docs/c-interface.md is the manual.
 *
 * This file is made by cbindgen from crates/capi. SPDX-License-Identifier: MIT OR Apache-2.0 */


#ifndef ANABRANCH_H
#define ANABRANCH_H

#include <stddef.h>
#include <stdint.h>

// Success.
#define AB_OK 0

// The set-up has a mistake, which the error's text names.
#define AB_ERROR_CONFIG -1

// An argument is wrong: for example, a pointer is null.
#define AB_ERROR_ARGUMENT -2

// The object is in another state: for example, it was started before.
#define AB_ERROR_STATE -3

// A path cannot be added or is unknown.
#define AB_ERROR_PATH -4

// The operating system refused something.
#define AB_ERROR_SYSTEM -5

// There is no session yet.
#define AB_ERROR_NOT_CONNECTED -6

// Too many bytes wait. The frame was not taken; the encoder must produce a key frame next.
#define AB_ERROR_BACKLOGGED -7

// The session is over.
#define AB_ERROR_ENDED -8

// The time limit is over.
#define AB_ERROR_TIMED_OUT -9

// A mistake of the library: it has caught a panic. The object must only be freed.
#define AB_ERROR_PANIC -10

// Flag of a frame: decoding can start here. Such frames are never given up for their age.
#define AB_FRAME_KEY 1

// Flag of a frame: no other frame needs it.
#define AB_FRAME_DISPOSABLE 2

// In place of a time: the frame is captured now.
#define AB_PTS_NOW INT64_MIN

// Version of the interface: 65,536 times its generation, plus the number of additions to it. A
// program works with every library of the same generation and no fewer additions.
#define AB_ABI ((1 << 16) + 1)

// A receiver.
typedef struct ab_receiver ab_receiver;

// A sender.
typedef struct ab_sender ab_sender;

// One sender's session at a receiver.
typedef struct ab_session ab_session;

// A function of the application that gets an event as JSON, as
// `{"event":"path-state","path":0,"name":"wlan0","state":"out"}`. The text is valid during the
// call. The function runs on the thread that has called the library, and may call the library,
// except for freeing the object. It must return, and not throw. A result other than 0 ends the
// calls.
typedef int (*ab_on_event)(void *context, const char *json);

// A frame that has arrived whole.
typedef struct {
  // Its bytes, which belong to the session.
  const uint8_t *bytes;
  // Their number.
  size_t count;
  // Number of the frame in its session. Numbers that are left out were given up.
  uint64_t number;
  // Time of its capture by the sender's clock, in microseconds since the sender's start. Of SRT:
  // time at which it was due, in microseconds since the receiver's start.
  uint64_t captured_us;
  // `AB_FRAME_KEY`, `AB_FRAME_DISPOSABLE` or 0.
  uint32_t flags;
} ab_frame;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns `AB_ABI` of the library that runs.
uint32_t ab_abi(void);

// Returns the text of the last error of the calling thread; empty if it had none. The text is
// valid until this thread's next call of the library. It is for people, and repeats no secrets.
const char *ab_last_error(void);

// Makes a secret key, for an application that keeps it where its system keeps secrets. Returns its
// text, which is valid until the calling thread's next call that returns a text; null if the
// system has no randomness.
const char *ab_generate_key(void);

// Returns the public key of a secret one, which the other end must know. The text is valid until
// the calling thread's next call that returns a text. Null if `secret` is no secret key:
// `ab_last_error` has the reason.
const char *ab_public_key(const char *secret);

// Makes a receiver. `config` is TOML with the keys `listen`, `listen-tcp`, `key`, `allow`,
// `latency`, `timeout` and `reassembly-wait` of `anabranch recv --config`, and `max-sessions`; or
// an address `srtla://ADDR:PORT?streamid=...&passphrase=...` or `srt://...` alone, or in `listen`
// beside `max-sessions`. No thread runs and no socket is opened before `ab_receiver_start`. The
// receiver is at `out`, and null after an error. It must be freed by `ab_receiver_free`.
int ab_receiver_new(const char *config, ab_receiver **out);

// Opens the socket and starts the receiver's thread. A receiver that could not start cannot be
// started again.
int ab_receiver_start(const ab_receiver *receiver);

// Returns the address at which it listens, whose port is never 0. The text is valid until the
// calling thread's next call that returns a text. Null before the start.
const char *ab_receiver_local_address(const ab_receiver *receiver);

// Returns a link for one new sender, good once and for `lasts_ms`. `host` is this machine's host
// and port for the sender. The text is valid until the calling thread's next call that returns a
// text. Null after an error: SRT has no links.
const char *ab_receiver_pairing_link(const ab_receiver *receiver,
                                     const char *host,
                                     uint32_t lasts_ms);

// Waits for the next session for `limit_ms` at most. Returns 1 with a session at `out`, which must
// be freed by `ab_session_free`; 0 without one, or an error. `out` is null then.
int ab_receiver_accept(const ab_receiver *receiver, uint32_t limit_ms, ab_session **out);

// Waits for the next event of the receiver or of one of its sessions for `limit_ms` at most, and
// puts it at `json`, as
// `{"event":"path-state","path":0,"name":"wlan0","state":"out","session":0,"peer":"abpub_..."}`.
// It is valid until the calling thread's next call that returns a text. Returns 1 with an event, 0
// without one (`json` is null then), or an error: `AB_ERROR_ENDED` after the last event.
int ab_receiver_next_event(const ab_receiver *receiver, uint32_t limit_ms, const char **json);

// Calls `on_event` with `context` for each event of the receiver or of one of its sessions, on the
// calling thread, until there was none for `limit_ms`. Returns the number of events, or an error
// if none came.
int ab_receiver_dispatch(const ab_receiver *receiver,
                         uint32_t limit_ms,
                         ab_on_event on_event,
                         void *context);

// Notifies the senders that this receiver leaves, and stops listening.
int ab_receiver_close(const ab_receiver *receiver);

// Frees a receiver. Its thread has ended when this returns. Sessions are over then, but must be
// freed, too. No other thread may use the receiver during this call and after it. Null is allowed.
void ab_receiver_free(ab_receiver *receiver);

// Returns the number of the session in the order in which sessions began, from 0, as the field
// `session` of events; 0 if `session` is null.
uint64_t ab_session_number(const ab_session *session);

// Returns the sender's public key; of SRT its stream ID, or its host if it gave none. The text is
// valid until the calling thread's next call that returns a text. Null if `session` is null.
const char *ab_session_peer(const ab_session *session);

// Waits for the next frame in order for `limit_ms` at most, and describes it at `frame`. Frames of
// SRT are pictures in MPEG-TS, which together are the sender's stream. The bytes are valid until
// the session's next call of this function, or until the session is freed. One thread at a time
// may take frames of a session. Returns 1 with a frame, 0 without one, or an error:
// `AB_ERROR_ENDED` after the last frame.
int ab_session_next_frame(const ab_session *session, uint32_t limit_ms, ab_frame *frame);

// Returns the state of the session and its paths as JSON, which is valid until the calling
// thread's next call that returns a text. Null if `session` is null.
const char *ab_session_stats_json(const ab_session *session);

// Ends the session, and notifies its sender that this receiver leaves.
int ab_session_close(const ab_session *session);

// Frees a session, which goes on if its receiver does: its frames are dropped. No other thread may
// use the session during this call and after it. Null is allowed.
void ab_session_free(ab_session *session);

// Makes a sender. `config` is TOML with the keys of `anabranch send --config`, or a link of
// `anabranch recv --pair`, or an address `srtla://HOST:PORT?streamid=...`. No thread runs and no
// socket is opened before `ab_sender_start`. The sender is at `out`, and null after an error. It
// must be freed by `ab_sender_free`.
int ab_sender_new(const char *config, ab_sender **out);

// Adds a path by an interface or a local address, before the start or while the sender runs. `via`
// is as a value of `--via`: `wlan0`, `192.0.2.7` or `wwan0,metered,max=3Mbit/s`. Returns the
// path's number, or an error.
int ab_sender_add_path(const ab_sender *sender, const char *via);

// Adds a path by a UDP socket that the application has made and bound to a network, as by
// Android's `Network.bindSocket`. `via` begins with any name for it: `wwan0,metered`. The library
// makes a descriptor of its own for the socket, and sets its options; the application closes its
// descriptor when it likes, and neither reads nor writes it. Returns the path's number, or an
// error.
int ab_sender_add_socket(const ab_sender *sender, const char *via, int socket);

// Removes a path. Its packets in flight are sent again by others, and the library closes its
// descriptor of the path's socket. The next path that is added gets the number.
int ab_sender_remove_path(const ab_sender *sender, uint32_t path);

// Opens the sockets, starts the sender's thread and requests a session. Returns at once; the event
// `connected` reports the session. A sender that could not start cannot be started again, unless
// it lacked a path.
int ab_sender_start(const ab_sender *sender);

// Waits until the session is up, for `limit_ms` at most. The events until then are dropped.
int ab_sender_wait_connected(const ab_sender *sender, uint32_t limit_ms);

// Takes a frame in: an encoder's output for one picture, or any bytes that are useless in part,
// up to 8 MiB. `pts_us` is its time in microseconds by any clock of the application that runs
// evenly, or `AB_PTS_NOW`. `flags` are `AB_FRAME_KEY`, `AB_FRAME_DISPOSABLE` or 0. The bytes are
// copied. Never waits.
int ab_sender_send_frame(const ab_sender *sender,
                         const uint8_t *bytes,
                         size_t count,
                         int64_t pts_us,
                         uint32_t flags);

// Takes the next bytes of a live MPEG-TS in, in pieces of any size up to 64 MiB, and sends each
// picture once it is whole. Returns 0, or the error of the first picture that was refused; the
// others of these bytes are sent if they can be. The bytes are copied. Never waits.
int ab_sender_send_ts(const ab_sender *sender, const uint8_t *bytes, size_t count);

// Returns the bitrate requested of the encoder, in bit/s; 0 before the session. Cheap enough for
// every frame. The set-up's `encoder-range` must be given.
uint64_t ab_sender_target_bps(const ab_sender *sender);

// Returns the state of the session and its paths as JSON, which is valid until the calling
// thread's next call that returns a text. Null if `sender` is null.
const char *ab_sender_stats_json(const ab_sender *sender);

// Waits for the next event for `limit_ms` at most, and puts it at `json`. It is valid until the
// calling thread's next call that returns a text. Returns 1 with an event, 0 without one (`json`
// is null then), or an error: `AB_ERROR_ENDED` after the last event.
int ab_sender_next_event(const ab_sender *sender, uint32_t limit_ms, const char **json);

// Calls `on_event` with `context` for each event, on the calling thread, until there was none for
// `limit_ms`. Returns the number of events, or an error if none came.
int ab_sender_dispatch(const ab_sender *sender,
                       uint32_t limit_ms,
                       ab_on_event on_event,
                       void *context);

// Ends the session once every frame has arrived or been given up, and waits for that, for
// `limit_ms` at most. The session waits for three seconds at most. The sender must be freed
// afterwards, too.
int ab_sender_close(const ab_sender *sender, uint32_t limit_ms);

// Frees a sender, whose session ends at once. Its thread has ended when this returns. No other
// thread may use the sender during this call and after it. Null is allowed.
void ab_sender_free(ab_sender *sender);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ANABRANCH_H */
