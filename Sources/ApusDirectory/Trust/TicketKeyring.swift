package import ApusLog
import ApusLoop
package import ApusTLS
import ApusWire

/// The keys of session tickets, kept in the data directory: after a restart all devices reconnect at once, and
/// resuming a session costs less than a handshake with certificates.
///
/// With these keys, an attacker could impersonate a device whose ticket it has seen; anyone who can read the file can
/// read the authorities' keys too.
package struct TicketKeyring: Sendable {
  package let keys: TicketKeys
  /// Nil: the keys are kept in memory only.
  private let directory: DataDirectory?
  private let log: Log
  private let nowSeconds: @Sendable () -> Int64
  /// Whether the file had these keys, and no others.
  private let isStored: Bool
  /// Whether another service makes the keys, and writes the file.
  private let isFollower: Bool

  /// Seconds for which one key seals session tickets. RFC 8446 allows tickets to live 7 days; RFC 5077, section 5.5,
  /// requires a limited lifetime of the key.
  static let sealingSeconds: Int64 = 12 * 3600
  /// Seconds after which a key no longer opens tickets: one period as the newest key, then two more.
  static let openingSeconds = 3 * sealingSeconds

  /// Reads the keys, and writes nothing.
  ///
  /// - Parameters:
  ///   - directory: Nil keeps the keys in memory only.
  ///   - isFollower: Whether the keys are those of another node, whose file comes to the directory: see ``follow()``.
  package init(
    _ directory: DataDirectory?, isFollower: Bool = false, log: Log,
    nowSeconds: @escaping @Sendable () -> Int64 = { EventLoop.wallClockMilliseconds() / 1000 }
  ) {
    self.directory = directory
    self.log = log
    self.isFollower = isFollower
    self.nowSeconds = nowSeconds
    let now = nowSeconds()
    let (kept, isWhole) = directory.map { Self.read($0.ticketFile, now, log) } ?? ([], false)
    keys = TicketKeys(kept: kept, nowSeconds: now)
    isStored = isWhole && keys.all == kept
  }

  /// Makes a new key if it is time, and stores what the file lacks. Call it once, before the first handshake, when no
  /// other service can be using the file.
  package func begin() {
    guard !isFollower else { return }
    if isDue {
      rotate()
    } else if !isStored {
      // A start does not wait for the disk to write what is there.
      save()
    }
  }

  /// Makes a new key if the newest has reached the end of its sealing period.
  package func rotateIfDue() { if !isFollower, isDue { rotate() } }

  /// Uses the keys that the file has now. Tickets of this process's own keys, which it has before there is a file, open
  /// no session any more.
  package func follow() {
    guard isFollower, let directory else { return }
    let (kept, _) = Self.read(directory.ticketFile, nowSeconds(), log)
    if !kept.isEmpty { keys.replace(kept) }
  }

  private var isDue: Bool {
    let age = nowSeconds() - (keys.all.first?.madeSeconds ?? 0)
    return !(0..<Self.sealingSeconds).contains(age)
  }

  package func rotate() {
    keys.rotate(nowSeconds: nowSeconds())
    save()
  }

  // MARK: The file

  /// One key per line, newest first: its creation time (seconds since 1970) and its bytes.
  ///
  /// - Returns: The keys that are used, and whether they are all of the file's.
  private static func read(
    _ path: String, _ nowSeconds: Int64, _ log: Log
  ) -> (kept: [TicketKeys.Key], isWhole: Bool) {
    guard Files.exists(path) else { return ([], false) }
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
      // A creation time in the future came from a wrong clock, so the key's age is unknown: drop it.
      let kept = keys.filter { (0..<openingSeconds).contains(nowSeconds - $0.madeSeconds) }
      return (kept, kept.count == keys.count)
    } catch {
      // Not fatal: devices make full handshakes instead of resuming their sessions.
      log(
        .warning, "session ticket keys unreadable, made new ones", .text("file", path),
        .text("reason", "\(error)"))
      return ([], false)
    }
  }

  private func save() {
    guard let directory else { return }
    let values = keys.all.map {
      (String($0.madeSeconds), String(decoding: Hex.encode($0.bytes.span), as: UTF8.self))
    }
    let file = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    do {
      try directory.sharing {
        try Files.write(
          file.text(
            heading: "Sealing keys of session tickets. The first one seals new tickets."),
          to: directory.ticketFile, isPrivate: true)
      }
    } catch {
      log(
        .warning,
        "session ticket keys not saved: devices make full handshakes after the next start",
        .text("reason", "\(error)"))
    }
  }
}
