package import ApusLog
import ApusLoop
package import ApusTLS
import ApusWire

/// The keys of session tickets, which the data directory keeps: when a service starts again all of its devices come at
/// once, and each resumes its session at less than the cost of a handshake with certificates.
///
/// Whoever has these keys can pass for a device whose ticket he saw; whoever can read them can read the authorities'
/// keys beside them.
package struct TicketKeyring: Sendable {
  package let keys: TicketKeys
  /// Nil: they end with the process.
  private let path: String?
  private let log: Log
  private let nowSeconds: @Sendable () -> Int64

  /// Seconds for which one key seals session tickets: RFC 8446 lets a ticket live 7 days, and RFC 5077, section 5.5,
  /// asks for a limited lifetime of the key.
  static let sealingSeconds: Int64 = 12 * 3600
  /// Seconds after which a key opens no more tickets: it was the newest, and then two others were.
  static let openingSeconds = 3 * sealingSeconds

  /// - Parameter path: The file; nil: nothing is kept.
  package init(
    path: String?, log: Log,
    nowSeconds: @escaping @Sendable () -> Int64 = { EventLoop.wallClockMilliseconds() / 1000 }
  ) {
    self.path = path
    self.log = log
    self.nowSeconds = nowSeconds
    let now = nowSeconds()
    keys = TicketKeys(kept: path.map { Self.read($0, now, log) } ?? [], nowSeconds: now)
    // A new file, or one from which keys were left out.
    if isDue { rotate() } else { save() }
  }

  /// Makes a new key where the newest has sealed for long enough.
  package func rotateIfDue() { if isDue { rotate() } }

  private var isDue: Bool {
    let age = nowSeconds() - (keys.all.first?.madeSeconds ?? 0)
    return !(0..<Self.sealingSeconds).contains(age)
  }

  package func rotate() {
    keys.rotate(nowSeconds: nowSeconds())
    save()
  }

  // MARK: The file

  /// A key a line, newest first: when it was made, in seconds since 1970, and its bytes.
  private static func read(_ path: String, _ nowSeconds: Int64, _ log: Log) -> [TicketKeys.Key] {
    guard Files.exists(path) else { return [] }
    do {
      let file = try SectionFile(text: Files.readText(path))
      let keys = try file.sections.flatMap(\.values).map { entry in
        guard let made = Int64(entry.key), let bytes = Hex.decode(Array(entry.value.utf8).span),
          let key = TicketKeys.Key(madeSeconds: made, bytes: bytes)
        else {
          throw DirectoryProblem(
            "each line must be `seconds = \(2 * TicketKeys.Key.byteCount) hexadecimal digits`")
        }
        return key
      }
      // One of the future is of a clock that was wrong: nobody knows its age.
      return keys.filter { (0..<openingSeconds).contains(nowSeconds - $0.madeSeconds) }
    } catch {
      // Without them all is well, but dearer for an hour.
      log(
        .warning, "session ticket keys unreadable, made new ones", .text("file", path),
        .text("reason", "\(error)"))
      return []
    }
  }

  private func save() {
    guard let path else { return }
    let values = keys.all.map {
      (String($0.madeSeconds), String(decoding: Hex.encode($0.bytes.span), as: UTF8.self))
    }
    let file = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    do {
      try Files.write(
        file.text(
          heading: "Sealing keys of session tickets. The first one seals new tickets."),
        to: path, isPrivate: true)
    } catch {
      log(
        .warning,
        "session ticket keys not saved: devices make full handshakes after the next start",
        .text("reason", "\(error)"))
    }
  }
}
