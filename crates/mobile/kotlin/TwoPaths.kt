// Sends frames over two paths of loopback from Kotlin to Kotlin. One path has a socket that this
// program makes, as an app of Android does; it is removed in the middle. Nothing is lost.

import anabranch.*
import com.sun.jna.Library
import com.sun.jna.Native
import java.nio.ByteBuffer
import kotlin.system.exitProcess

private const val FRAMES = 400
private const val PAUSE_MS = 5L
private const val LIMIT_MS = 10_000UL

/** Calls of the system, in place of Android's `Network.bindSocket`. */
interface LibC : Library {
    fun socket(family: Int, type: Int, protocol: Int): Int
    fun bind(fd: Int, address: ByteArray, length: Int): Int
}

/** Returns a UDP socket that is bound to an address of loopback. */
private fun boundSocket(last: Byte): Int {
    val libc = Native.load("c", LibC::class.java)
    val fd = libc.socket(2, 2, 0)
    val address = ByteArray(16)
    address[0] = 2
    byteArrayOf(127, 0, 0, last).copyInto(address, 4)
    check(fd >= 0 && libc.bind(fd, address, address.size) == 0) { "no socket" }
    return fd
}

private class Seen : EventListener {
    val events = mutableListOf<Event>()

    @Synchronized
    override fun onEvent(event: Event) {
        events.add(event)
    }

    @Synchronized
    fun has(wanted: (Event) -> Boolean) = events.any(wanted)
}

private class Heard : ReceiverListener {
    val events = mutableListOf<ReceiverEvent>()

    @Synchronized
    override fun onEvent(event: ReceiverEvent) {
        events.add(event)
    }

    @Synchronized
    fun has(wanted: (ReceiverEvent) -> Boolean) = events.any(wanted)
}

private fun await(what: String, isSo: () -> Boolean) {
    val until = System.nanoTime() + 10_000_000_000
    while (!isSo()) {
        check(System.nanoTime() < until) { "it never came to this: $what" }
        Thread.sleep(10)
    }
}

private fun bytesOf(number: Int) = ByteArray(8_000) { (number * 31 + it).toByte() }

/** Returns a buffer outside of Java's heap, as encoders of Android hand them out. */
private fun bufferOf(bytes: ByteArray): ByteBuffer =
    ByteBuffer.allocateDirect(bytes.size).put(bytes).flip()

private fun receive(session: Session, received: MutableList<VideoFrame>) {
    try {
        while (received.size < FRAMES) {
            session.nextFrame(LIMIT_MS)?.let { received.add(it) } ?: return
        }
    } catch (over: AnabranchException.Ended) {
        println("the session is over: ${over.message}")
    }
}

private fun mistakesAreExceptions(sender: Sender) {
    try {
        Sender("nonsense = 1")
        error("a wrong set-up was taken")
    } catch (mistake: AnabranchException.Config) {
        check(mistake.text.contains("nonsense")) { mistake.text }
    }
    try {
        sender.addSocket("closed", 1_000_000)
        error("a closed descriptor was taken")
    } catch (mistake: AnabranchException.Argument) {
        check(mistake.text.contains("1000000")) { mistake.text }
    }
    try {
        sender.removePath(30u)
        error("an unknown path was removed")
    } catch (mistake: AnabranchException.Path) {
        check(mistake.text.isNotEmpty())
    }
}

fun main() {
    val (camera, studio) = generateKey() to generateKey()
    val receiver = Receiver(
        """
        listen = '127.0.0.1:0'
        key = '$studio'
        allow = ['${publicKey(camera)}']
        latency = '1 s'
        """.trimIndent()
    )
    val heard = Heard()
    receiver.start(heard)
    val sender = Sender(
        """
        to = '${receiver.localAddress()}'
        key = '$camera'
        peer = '${publicKey(studio)}'
        latency = '1 s'
        encoder-range = '1 Mbit/s..20 Mbit/s'
        via = []
        """.trimIndent()
    )
    mistakesAreExceptions(sender)
    val own = sender.addSocket("cellular", boundSocket(2))
    sender.addPath("127.0.0.3")
    val seen = Seen()
    sender.start(seen)
    val session = receiver.accept(LIMIT_MS) ?: error("no session")
    await("the listener hears of the session") { seen.has { it is Event.Connected } }
    await("both paths carry") {
        sender.statistics().paths.count { it.state == "active" && it.sentBytes > 0UL } == 2
    }
    check(sender.targetBps() > 0UL) { "no target" }

    val received = mutableListOf<VideoFrame>()
    val reader = Thread { receive(session, received) }.apply { start() }
    for (number in 0 until FRAMES) {
        if (number == FRAMES / 2) sender.removePath(own)
        val importance = if (number % 50 == 0) Importance.KEY else Importance.REFERENCE
        sender.sendFrame(bufferOf(bytesOf(number)), number * PAUSE_MS * 1_000, importance)
        Thread.sleep(PAUSE_MS)
    }
    sender.finish(LIMIT_MS)
    reader.join()

    val statistics = sender.statistics()
    check(received.size == FRAMES) { "${received.size} of $FRAMES frames arrived" }
    received.forEachIndexed { index, frame ->
        check(frame.number == index.toULong() && frame.bytes.contentEquals(bytesOf(index))) {
            "frame $index is another one"
        }
        check(frame.isKey == (index % 50 == 0))
    }
    check(statistics.paths[own.toInt()].state == "removed") { "$statistics" }
    check(statistics.paths.all { it.sentBytes > 100_000UL }) { "$statistics" }
    await("the listener hears of the end") { seen.has { it is Event.Ended } }
    await("the receiver's listener hears of the session, its paths and its end") {
        val ofCamera = { event: ReceiverEvent -> event.peer == publicKey(camera) }
        heard.has { it.event is Event.SessionBegan && ofCamera(it) } &&
            heard.has { it.event is Event.PathState && it.session == session.number() } &&
            heard.has { it.event is Event.SessionEnded && ofCamera(it) }
    }
    val shares = statistics.paths.joinToString { "${it.name} ${it.sentBytes} bytes" }
    println("$FRAMES of $FRAMES frames arrived: $shares")
    session.close()
    receiver.finish()
    sender.close()
    receiver.close()
    exitProcess(0)
}
