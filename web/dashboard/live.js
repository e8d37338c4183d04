// A stream's live picture: by WebRTC (WHEP), or as a film where WebRTC does not get through or
// cannot carry the picture.

import { element, setText } from './format.js';

/** Time for WebRTC to connect: over a usable path it takes less than a second. */
const CONNECT_MS = 5_000;
/** Time from the connection to the first picture: key frames of live encoders are 1 to 4 s apart. */
const PICTURE_MS = 15_000;
/** Pause before another attempt. */
const RETRY_MS = 3_000;
/** Interval of questions about a stream that cannot be shown now. */
const ASK_MS = 2_000;
/** Seconds of the film that wait: at first, added by each pause, and at most. Above these, by
    `faster` it plays faster, and by `leap` it leaps. */
const LAG = { first: 0.1, more: 0.04, most: 0.6, faster: 0.06, leap: 0.7 };
/** Seconds of a film that are kept behind and removed beyond. */
const KEPT = { most: 20, least: 8 };
/** Time for which a page that nobody sees goes on. */
const HIDDEN_MS = 5_000;

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const query = (name) => `?stream=${encodeURIComponent(name)}`;

/** Waits for a promise, or fails with a reason in words. */
function within(ms, promise, reason) {
  const late = sleep(ms).then(() => { throw new Error(reason); });
  return Promise.race([promise, late]);
}

/** Calls `see` with the delay of each picture that is shown, in seconds. */
function watchDelays(video, delayOf, see) {
  if (!video.requestVideoFrameCallback) return;
  const next = (now, metadata) => {
    if (!video.isConnected) return;
    const delay = delayOf(metadata);
    if (delay !== null) see(delay);
    video.requestVideoFrameCallback(next);
  };
  video.requestVideoFrameCallback(next);
}

/** Pictures by WebRTC. */
class WebRtc {
  label = 'WebRTC';
  #peer = new RTCPeerConnection();
  #viewer = null;
  #roundTrip = 0;
  #timer;

  async play(name, video, about, see) {
    const peer = this.#peer;
    peer.addTransceiver('video', { direction: 'recvonly' });
    if (about.webrtc_sound) peer.addTransceiver('audio', { direction: 'recvonly' });
    const stream = new MediaStream();
    peer.addEventListener('track', ({ track, receiver }) => {
      stream.addTrack(track);
      // The receiver's delay has smoothed the stream already.
      if ('jitterBufferTarget' in receiver) receiver.jitterBufferTarget = 0;
    });
    await peer.setLocalDescription(await peer.createOffer());
    const answer = await fetch(`whep${query(name)}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/sdp' },
      body: peer.localDescription.sdp,
    });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    this.#viewer = new URL(answer.headers.get('Location'), answer.url);
    await peer.setRemoteDescription({ type: 'answer', sdp: await answer.text() });
    await within(CONNECT_MS, this.#connected(), 'WebRTC does not get through');
    video.srcObject = stream;
    await within(PICTURE_MS, this.#firstPicture(video), 'no picture came by WebRTC');
    this.#timer = setInterval(() => this.#ask(), 2_000);
    watchDelays(video, (metadata) => (metadata.receiveTime
      ? (metadata.expectedDisplayTime - metadata.receiveTime) / 1e3 + this.#roundTrip / 2
      : null), see);
  }

  /** Resolves when the picture ends. */
  ended() {
    return new Promise((resolve) => {
      this.#peer.addEventListener('connectionstatechange', () => {
        if (['failed', 'disconnected', 'closed'].includes(this.#peer.connectionState)) resolve();
      });
    });
  }

  close() {
    clearInterval(this.#timer);
    this.#peer.close();
    if (this.#viewer) fetch(this.#viewer, { method: 'DELETE', keepalive: true }).catch(() => {});
  }

  #connected() {
    return new Promise((resolve, reject) => {
      const look = () => {
        const state = this.#peer.connectionState;
        if (state === 'connected') resolve();
        if (state === 'failed') reject(new Error('WebRTC does not get through'));
      };
      this.#peer.addEventListener('connectionstatechange', look);
      look();
    });
  }

  async #firstPicture(video) {
    video.play().catch(() => {});
    while (video.videoWidth === 0) await sleep(50);
  }

  async #ask() {
    for (const report of (await this.#peer.getStats()).values()) {
      if (report.type === 'candidate-pair' && report.nominated) {
        this.#roundTrip = report.currentRoundTripTime ?? 0;
      }
    }
  }
}

/** Pictures as fragments of MP4. */
class Film {
  label = 'HTTP';
  #abort = new AbortController();
  #source;
  #video;
  #ended;
  #end;
  #lag = LAG.first;
  /** Arrivals: the film's end in its own seconds, and the time. */
  #arrivals = [];

  constructor() {
    this.#ended = new Promise((resolve) => { this.#end = resolve; });
  }

  async play(name, video, about, see) {
    const Source = globalThis.ManagedMediaSource ?? globalThis.MediaSource;
    if (!Source) throw new Error('this browser plays no fragments of MP4');
    const isLoud = Source.isTypeSupported(about.film_type);
    const type = isLoud ? about.film_type : about.silent_film_type;
    if (!Source.isTypeSupported(type)) throw new Error('this browser does not decode the picture');
    this.#video = video;
    const answer = await fetch(`live.mp4${query(name)}${isLoud ? '' : '&silent'}`, {
      signal: this.#abort.signal,
    });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    this.#source = new Source();
    video.disableRemotePlayback = true;
    video.src = URL.createObjectURL(this.#source);
    await new Promise((resolve) => {
      this.#source.addEventListener('sourceopen', resolve, { once: true });
    });
    URL.revokeObjectURL(video.src);
    const buffer = this.#source.addSourceBuffer(type);
    // A browser that runs out of pictures needs more of them.
    video.addEventListener('waiting', () => {
      if (video.currentTime > 0) this.#lag = Math.min(this.#lag + LAG.more, LAG.most);
    });
    this.#pump(answer.body.getReader(), buffer).catch(() => {}).finally(() => this.#end());
    video.play().catch(() => {});
    watchDelays(video, (metadata) => this.#delay(metadata), see);
  }

  ended() { return this.#ended; }

  close() {
    this.#abort.abort();
    this.#end();
    this.#video?.removeAttribute('src');
    this.#video?.load();
  }

  async #pump(reader, buffer) {
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.#source.readyState !== 'open') return;
      await this.#change(buffer, () => buffer.appendBuffer(value));
      await this.#follow(buffer);
    }
  }

  #change(buffer, change) {
    return new Promise((resolve, reject) => {
      buffer.addEventListener('updateend', resolve, { once: true });
      buffer.addEventListener('error', reject, { once: true });
      change();
    });
  }

  /** Keeps the picture near the film's end. */
  async #follow(buffer) {
    const { buffered } = this.#video;
    if (buffered.length === 0) return;
    const end = buffered.end(buffered.length - 1);
    this.#arrivals.push({ end, at: performance.now() });
    if (this.#arrivals.length > 500) this.#arrivals.shift();
    const lag = end - this.#video.currentTime;
    const isOutside = this.#video.currentTime < buffered.start(buffered.length - 1);
    if (isOutside || lag > this.#lag + LAG.leap) {
      this.#video.currentTime = Math.max(0, end - this.#lag);
    }
    this.#video.playbackRate = lag > this.#lag + LAG.faster ? 1.05 : 1;
    if (this.#video.currentTime - buffered.start(0) > KEPT.most) {
      const until = this.#video.currentTime - KEPT.least;
      await this.#change(buffer, () => buffer.remove(0, until));
    }
  }

  #delay({ mediaTime, expectedDisplayTime }) {
    const arrival = this.#arrivals.find(({ end }) => end > mediaTime);
    return arrival ? (expectedDisplayTime - arrival.at) / 1e3 : null;
  }
}

/** A stream's picture, which begins when it is seen and ends when it is not. */
export class LivePicture {
  root;
  #name;
  #video = null;
  #screen = element('div', { class: 'screen' });
  #note = element('p', { class: 'live-note muted' });
  #sound = element('button', { class: 'button', type: 'button' }, 'with sound');
  #isSeen = true;
  #wantsSound = false;
  /** Number of the current attempt: earlier ones are over. */
  #attempt = 0;
  #player = null;
  #about = null;
  #delay = null;
  #hiddenTimer;
  #life = new AbortController();

  constructor(name) {
    this.#name = name;
    this.#sound.hidden = true;
    this.#sound.addEventListener('click', () => {
      this.#wantsSound = true;
      this.#begin();
    });
    const caption = element('figcaption', {}, this.#note, this.#sound);
    this.root = element('figure', { class: 'live', 'data-state': 'waiting' }, this.#screen, caption);
    this.#screen.hidden = true;
    const { signal } = this.#life;
    const timer = setInterval(() => this.#describe(), 1_000);
    document.addEventListener('visibilitychange', () => this.#look(), { signal });
    const observer = new IntersectionObserver(([entry]) => {
      this.#isSeen = entry.isIntersecting;
      this.#look();
    }, { rootMargin: '200px' });
    observer.observe(this.root);
    signal.addEventListener('abort', () => {
      clearInterval(timer);
      clearTimeout(this.#hiddenTimer);
      observer.disconnect();
      this.#pause();
    });
    this.#begin();
  }

  /** Whether a picture moves, so that key frames are not needed. */
  get isLive() { return this.root.dataset.state === 'live'; }

  /** Ends the picture for good. */
  close() { this.#life.abort(); }

  #pause() {
    this.#attempt += 1;
    this.#stop();
    this.root.dataset.state = 'paused';
  }

  /** Goes on or pauses, as the page is seen. */
  #look() {
    const isSeen = this.#isSeen && !document.hidden;
    clearTimeout(this.#hiddenTimer);
    if (isSeen && this.root.dataset.state === 'paused') this.#begin();
    if (!isSeen && this.root.dataset.state !== 'paused') {
      this.#hiddenTimer = setTimeout(() => this.#pause(), HIDDEN_MS);
    }
  }

  /** Shows the picture, again and again, until it is paused. */
  async #begin() {
    if (this.#life.signal.aborted) return;
    this.#attempt += 1;
    const attempt = this.#attempt;
    const isCurrent = () => attempt === this.#attempt;
    this.#stop();
    let reason = '';
    while (isCurrent()) {
      this.root.dataset.state = 'waiting';
      try {
        await this.#show(isCurrent);
        reason = '';
      } catch (error) {
        if (!isCurrent()) return;
        this.#stop();
        reason = error.message;
        setText(this.#note, `no live picture: ${reason}`);
      }
      if (isCurrent()) await sleep(reason ? RETRY_MS : 200);
    }
  }

  async #show(isCurrent) {
    let about = await this.#ask();
    while (isCurrent() && about.webrtc !== null && about.film !== null) {
      this.root.dataset.state = 'refused';
      setText(this.#note, `no live picture: ${about.film}`);
      await sleep(ASK_MS);
      about = await this.#ask();
    }
    if (!isCurrent()) return;
    this.#about = about;
    const isFirst = about.webrtc === null && !(this.#wantsSound && about.audio === 'AAC');
    let why = about.webrtc ?? 'sound is wanted, which is AAC';
    if (isFirst) {
      try {
        await this.#play(new WebRtc(), isCurrent, null);
        return;
      } catch (error) {
        if (!isCurrent()) return;
        why = error.message;
      }
    }
    if (about.film !== null) throw new Error(why);
    await this.#play(new Film(), isCurrent, why);
  }

  async #play(player, isCurrent, why) {
    this.#stop();
    this.#player = player;
    this.#video = element('video', { 'aria-label': `Live picture of ${this.#name}` });
    // Browsers begin by themselves if there is no sound.
    this.#video.muted = !this.#wantsSound;
    this.#video.autoplay = true;
    this.#video.playsInline = true;
    this.#video.controls = true;
    this.#screen.replaceChildren(this.#video);
    this.#screen.hidden = false;
    this.#delay = null;
    const see = (delay) => {
      this.#delay = this.#delay === null ? delay : this.#delay * 0.9 + delay * 0.1;
    };
    try {
      await player.play(this.#name, this.#video, this.#about, see);
    } catch (error) {
      this.#stop();
      throw error;
    }
    if (!isCurrent()) {
      player.close();
      return;
    }
    player.why = why;
    this.root.dataset.state = 'live';
    this.root.dataset.way = player.label;
    this.#describe();
    await player.ended();
    this.#stop();
  }

  #stop() {
    this.#player?.close();
    this.#player = null;
    this.#screen.replaceChildren();
    this.#screen.hidden = true;
    this.#sound.hidden = true;
    delete this.root.dataset.way;
  }

  async #ask() {
    const answer = await fetch(`picture.json${query(this.#name)}`);
    return answer.json();
  }

  /** Says by what way the picture comes, and how late it is. */
  #describe() {
    if (!this.isLive || !this.#player) return;
    const parts = [`live by ${this.#player.label}`];
    const agreed = this.#about.latency_s ?? 0;
    if (this.#delay !== null) {
      const ms = (seconds) => Math.round(seconds * 1e3);
      const share = `${ms(this.#delay)} ms in this browser`;
      parts.push(agreed > 0
        ? `${ms(agreed + this.#delay)} ms behind the sender (${ms(agreed)} ms agreed, ${share})`
        : share);
      this.root.dataset.delay = String(ms(agreed + this.#delay));
    }
    const isSilent = this.#player.label === 'WebRTC' && this.#about.audio === 'AAC';
    if (isSilent) parts.push('without sound: WebRTC does not carry AAC');
    this.#sound.hidden = !isSilent;
    if (this.#player.why) parts.push(this.#player.why);
    setText(this.#note, parts.join(' · '));
  }
}
