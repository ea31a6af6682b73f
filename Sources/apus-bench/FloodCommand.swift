import ApusCommand
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire
import Glibc

/// `apus-bench flood`: connections that each send one bad notification, one at a time from each source.
final class FloodCommand: BinaryLinkOwner {
  private let loop = EventLoop(name: "flood")
  private let memory = BinaryLinkMemory()
  private let endpoint: BinaryEndpoint
  private let sources: [SocketAddress]
  private var links: [BinaryLink?]
  /// Source indices of the links that ended in this turn.
  private var ended: [Int] = []
  private var opened = 0
  private var answered = 0
  private var failed = 0
  private var isStopping = false
  private var failure: CommandFailure?

  init(_ invocation: Invocation) throws(CommandFailure) {
    // Cheaper connections make a denser flood.
    endpoint = try BinaryEndpoint(invocation, verifies: false)
    sources = try invocation.sources()
    guard !sources.isEmpty else {
      throw CommandFailure(.usage, "\(BenchOptions.source.description.flag) is missing")
    }
    links = sources.map { _ in nil }
  }

  func run() throws(CommandFailure) {
    do throws(SocketError) {
      let signals = try [SIGINT, SIGTERM].map { (signal) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal) { [unowned self] in
          isStopping = true
        }
      }
      ended = Array(sources.indices)
      loop.onTurnEnd = { [unowned self] in reconnect() }
      withExtendedLifetime(signals) {
        loop.run()
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    let summary = JSONValue.members([
      "connections": .integer(Int64(opened)), "answered": .integer(Int64(answered)),
      "failed": .integer(Int64(failed)),
    ])
    print(summary.text)
    if let failure { throw failure }
  }

  private func reconnect() {
    guard !isStopping else {
      // Waits for the last responses, so that the counts are complete and the ports are free again.
      if ended.count == sources.count { loop.stop() }
      return
    }
    do {
      for index in ended {
        links[index] = try BinaryLink(
          to: endpoint, tag: index, source: sources[index], loop: loop, memory: memory, owner: self)
      }
    } catch {
      failure = error as? CommandFailure ?? CommandFailure(.unavailable, "\(error)")
      isStopping = true
      return loop.stop()
    }
    ended.removeAll(keepingCapacity: true)
  }

  func linkOpened(_ link: BinaryLink) {
    opened += 1
    link.write(BinaryFrames.knownBad(identifier: 1).span, recordBytes: TLSBuffers.recordBytes)
  }

  func linkTakesMore(_ link: BinaryLink) {}

  func link(_ link: BinaryLink, received packet: BinaryPacket) { answered += 1 }

  func linkEnded(_ link: BinaryLink, _ reason: String?) {
    if reason != nil { failed += 1 }
    ended.append(link.tag)
  }
}
