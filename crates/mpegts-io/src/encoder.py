"""Encodes a camera by GStreamer, at the bitrate that comes while it runs: `send --encode`.

Arguments: `check` or `run`, a source of pictures and, if wanted, one of sound, both as
gst-launch-1.0 takes them. Standard output is a connected socket of datagrams: MPEG-TS leaves by
it, bitrates and requests come. Encoding begins with the first bitrate. `check` builds the pipeline
and ends.
"""

import json
import socket
import sys
import threading
import time


def fail(text, code=1):
    print(" ".join(str(text).split()), file=sys.stderr)
    sys.exit(code)


try:
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import GLib, Gst
except (ImportError, ValueError) as error:
    fail(f"{error} (Debian: python3-gi, gir1.2-gstreamer-1.0)")

# Bitrate of the sound, in kbit/s.
SOUND_KBIT = 96
# Bitrate of the tables of MPEG-TS, ten of each a second, and of the PCR, in kbit/s.
TABLES_KBIT = 40
# Share of the rest for coded bytes; the headers and the padding of MPEG-TS take the other 8 %.
SHARE = 0.92
# Range of the bitrates that x264 is asked for, in kbit/s. Its property takes no more.
LEAST_KBIT = 100
MOST_KBIT = 2_048_000
# Seven packets, as all tools send.
DATAGRAM_LEN = 7 * 188
# Seconds between requests for a key frame: a refresh of all columns takes two seconds.
KEY_INTERVAL = 1.0
# Seconds between warnings of a machine that is too slow.
WARNING_INTERVAL = 10.0
# Exit code of a source that no restart helps.
HOPELESS = 3

PACKAGES = {
    "x264enc": "gstreamer1.0-plugins-ugly",
    "h264parse": "gstreamer1.0-plugins-bad",
    "mpegtsmux": "gstreamer1.0-plugins-bad",
    "voaacenc": "gstreamer1.0-plugins-bad",
    "videoconvert": "gstreamer1.0-plugins-base",
    "videoscale": "gstreamer1.0-plugins-base",
    "appsink": "gstreamer1.0-plugins-base",
    "v4l2src": "gstreamer1.0-plugins-good",
    "pulsesrc": "gstreamer1.0-plugins-good",
    "alsasrc": "gstreamer1.0-plugins-base",
}


def build(video, sound):
    words = f"{video} {sound}".split()
    for element, package in PACKAGES.items():
        is_needed = element in words or (not element.endswith("src") and element != "voaacenc")
        if (is_needed or (sound and element == "voaacenc")) and not Gst.ElementFactory.find(element):
            fail(f"GStreamer has no {element} (Debian: {package})")
    text = (
        f"{video} ! queue name=queue leaky=downstream max-size-buffers=10 max-size-bytes=0 "
        "max-size-time=0 ! videoconvert ! videoscale ! "
        # In I420 two pixels and two rows share their colour: odd sizes lose one.
        "video/x-raw,format=I420,width=[2,16384,2],height=[2,16384,2] ! "
        "x264enc name=encoder tune=zerolatency speed-preset=veryfast key-int-max=50 "
        "intra-refresh=true vbv-buf-capacity=80 bitrate=500 ! h264parse config-interval=-1 ! "
        "mpegtsmux name=mux alignment=0 ! appsink name=sink sync=false emit-signals=true"
    )
    if sound:
        rate = SOUND_KBIT * 1000
        text += (
            f" {sound} ! queue ! audioconvert ! audioresample ! "
            f"voaacenc bitrate={rate} ! aacparse ! mux."
        )
    return Gst.parse_launch(text)


class Encoder:
    def __init__(self, pipeline, channel, has_sound):
        self.pipeline, self.channel, self.has_sound = pipeline, channel, has_sound
        self.encoder = pipeline.get_by_name("encoder")
        self.is_playing, self.has_worked = False, False
        self.key_at, self.warned_at = 0.0, 0.0
        pipeline.get_by_name("sink").connect("new-sample", self.on_sample)
        pipeline.get_by_name("queue").connect("overrun", self.on_overrun)

    def on_sample(self, sink):
        self.has_worked = True
        buffer = sink.emit("pull-sample").get_buffer()
        data = buffer.extract_dup(0, buffer.get_size())
        for begin in range(0, len(data), DATAGRAM_LEN):
            try:
                self.channel.send(data[begin : begin + DATAGRAM_LEN])
            except OSError:
                pass
        return Gst.FlowReturn.OK

    def on_overrun(self, _):
        now = time.monotonic()
        if now > self.warned_at + WARNING_INTERVAL:
            self.warned_at = now
            text = "this machine is too slow for the pictures: some are left out"
            print(text, file=sys.stderr, flush=True)

    def follow(self, control):
        while True:
            try:
                told = json.loads(control.recv(4096))
                if told["event"] == "target":
                    self.set_target(int(told["target_bps"]))
                elif told["event"] == "key-frame":
                    self.refresh()
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                pass

    def set_target(self, target):
        rest = target / 1000 - TABLES_KBIT - (1.1 * SOUND_KBIT if self.has_sound else 0)
        kbit = min(max(int(rest * SHARE), LEAST_KBIT), MOST_KBIT)
        if self.encoder.get_property("bitrate") != kbit:
            self.encoder.set_property("bitrate", kbit)
        if not self.is_playing:
            self.is_playing = True
            self.pipeline.set_state(Gst.State.PLAYING)

    def refresh(self):
        now = time.monotonic()
        if now > self.key_at + KEY_INTERVAL:
            self.key_at = now
            wish = Gst.Structure.new_from_string("GstForceKeyUnit, all-headers=(boolean)true")
            event = Gst.Event.new_custom(Gst.EventType.CUSTOM_UPSTREAM, wish)
            self.encoder.get_static_pad("src").send_event(event)


def main():
    action, video, *sound = sys.argv[1:]
    Gst.init(None)
    sound = sound[0] if sound else ""
    try:
        pipeline = build(video, sound)
    except GLib.Error as error:
        fail(f"{error.message} (pictures that are compressed need a decoder, as ! jpegdec)")
    if action == "check":
        return
    channel = socket.socket(fileno=sys.stdout.fileno())
    encoder = Encoder(pipeline, channel, bool(sound))
    loop = GLib.MainLoop()
    failed = []

    def on_message(_, message):
        if message.type == Gst.MessageType.ERROR:
            failed.append((message.src.get_name(), *message.parse_error()))
        if message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS):
            loop.quit()

    bus = pipeline.get_bus()
    bus.add_signal_watch()
    bus.connect("message", on_message)
    threading.Thread(target=encoder.follow, args=(channel,), daemon=True).start()
    loop.run()
    pipeline.set_state(Gst.State.NULL)
    if failed:
        report(*failed[0], encoder.has_worked)


def report(name, error, details, has_worked):
    # A device may come back. Pictures whose format does not fit will not fit later either.
    is_of_format = error.matches(Gst.StreamError.quark(), Gst.StreamError.FAILED) or error.matches(
        Gst.StreamError.quark(), Gst.StreamError.FORMAT
    )
    if has_worked or not is_of_format:
        fail(f"{name}: {error.message}")
    cause = (details or "").strip().splitlines()[-1:]
    fail(
        f"{name}: {error.message} {' '.join(cause)} Choose another format or size of the source, "
        "as gst:v4l2src ! video/x-raw,width=1280,height=720",
        HOPELESS,
    )


main()
