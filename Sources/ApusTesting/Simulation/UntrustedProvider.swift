import ApusAdmin
import ApusModel
import ApusServer

/// An HTTP/2 client that never sends a credential, with its clock, in a world without other events.
package final class UntrustedProvider {
  package struct Report: Sendable {
    /// Seconds from the end of the handshake to the end of the connection; nil while it is open.
    package var connectedSeconds: Double?
    /// Everything that the service sent.
    package var received: [UInt8] = []
    /// Connections that the service has counted as untrusted for too long.
    package var countedEnds: UInt64 = 0
  }

  private let world: QuietWorld
  private let pingSeconds: UInt64?
  private var channel: ClientChannel?
  private var openedAt: UInt64 = 0
  private var report = Report()

  /// RFC 9113, section 3.4: the preface and an empty SETTINGS frame.
  private static let preface =
    Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
  /// Section 6.7.
  private static let ping: [UInt8] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]

  /// - Parameter pingSeconds: The interval of its PINGs; nil for none.
  package init(pingSeconds: Int?) throws {
    world = try QuietWorld()
    self.pingSeconds = pingSeconds.map { UInt64($0) }
  }

  /// Connects, sends its preface, and stays for `seconds`.
  package func run(seconds: Int) throws -> Report {
    defer { world.end() }
    world.start()
    channel = try world.connect(
      self, listener: SimulationListener.index(.provider, .production), certificate: nil,
      protocols: ["h2"])
    sendPings()
    world.advance(seconds)
    report.countedEnds = world.server.service?.ended(for: .untrustedTime) ?? 0
    return report
  }

  private func sendPings() {
    guard let pingSeconds else { return }
    world.timeline.after(pingSeconds * Timeline.second) { [weak self] in
      self?.channel?.send(Self.ping)
      self?.sendPings()
    }
  }
}

extension UntrustedProvider: ChannelOwner {
  func channelOpened(_ channel: ClientChannel) {
    openedAt = world.timeline.now
    channel.send(Self.preface)
  }

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    report.received += bytes
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    self.channel = nil
    report.connectedSeconds = Double(world.timeline.now - openedAt) / Double(Timeline.second)
  }
}
