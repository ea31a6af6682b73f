import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusWire
import Synchronization

/// Remembers the nonces of signed connect messages for as long as their times would be believed, over restarts too.
///
/// Shared by all workers: a replay may come in anywhere. Each nonce is appended to a file, without waiting for the
/// disk: the system writes it although the service is killed. Only a loss of power forgets the last seconds.
final class ReplayGuard: Sendable {
  private struct State: ~Copyable {
    var recent: Set<[UInt8]> = []
    var older: Set<[UInt8]> = []
    var turnedMilliseconds: Int64 = 0
    /// Where the recent ones are written; nil where nothing is kept.
    var file: OpenFile?
  }

  private let state: Mutex<State>
  private let path: String?
  private let log: Log?

  /// Nonces in each half. At the limit nobody is believed until the halves turn: a flood of signed messages needs a
  /// certificate, so it has a sender that can be told.
  private static let capacity = 1_000_000
  /// A nonce is believed from 300 s before its time to 300 s after.
  private static let turnMilliseconds = 2 * Limits.courierNonceSeconds * 1000

  /// Keeps nothing over a restart.
  init() {
    (path, log) = (nil, nil)
    state = Mutex(State())
  }

  /// - Parameter path: The file; one of the same name with `.old` behind it has the older half.
  init(path: String, log: Log, nowMilliseconds: Int64) {
    (self.path, self.log) = (path, log)
    var opening = State()
    opening.turnedMilliseconds = nowMilliseconds
    do throws(FileError) {
      let known = try Self.read("\(path).old").union(Self.read(path))
      opening.recent = known.filter { Self.isBelieved($0, nowMilliseconds) }
      // One file of what still counts, however often the service starts.
      let text = opening.recent.map(Self.line).joined()
      try Files.write(text, to: path, isPrivate: true)
      Files.remove("\(path).old")
      opening.file = try OpenFile(appendingTo: path)
    } catch {
      log(.error, Log.Kind.noncesNotKept.event, .text("reason", error.description))
    }
    state = Mutex(opening)
  }

  /// True for a nonce that was not seen; it is remembered.
  func admit(_ nonce: [UInt8], nowMilliseconds: Int64) -> Bool {
    state.withLock { state in
      if abs(nowMilliseconds - state.turnedMilliseconds) >= Self.turnMilliseconds {
        state.older = state.recent
        state.recent = []
        state.turnedMilliseconds = nowMilliseconds
        turn(&state)
      }
      guard state.recent.count < Self.capacity, !state.older.contains(nonce),
        state.recent.insert(nonce).inserted
      else { return false }
      append(nonce, &state)
      return true
    }
  }

  private func turn(_ state: inout State) {
    guard let path else { return }
    do throws(FileError) {
      try Files.move(path, to: "\(path).old")
      state.file = try OpenFile(appendingTo: path)
    } catch {
      report(error)
    }
  }

  /// A full disk does not keep devices out: in this process the nonce is remembered in any case.
  private func append(_ nonce: [UInt8], _ state: inout State) {
    guard state.file != nil else { return }
    do throws(FileError) {
      try state.file?.append(Self.line(nonce), syncs: false)
    } catch {
      report(error)
    }
  }

  private func report(_ error: FileError) {
    log?.limited(.error, .noncesNotKept, atMilliseconds: EventLoop.monotonicMilliseconds()) {
      [.text("reason", error.description)]
    }
  }

  // MARK: The file

  private static func line(_ nonce: [UInt8]) -> String {
    String(decoding: Hex.encode(nonce.span), as: UTF8.self) + "\n"
  }

  /// A line that was cut off by a loss of power is none.
  private static func read(_ path: String) throws(FileError) -> Set<[UInt8]> {
    guard Files.exists(path) else { return [] }
    let lines = try Files.readText(path).split(separator: "\n")
    return Set(
      lines.compactMap { line in
        Hex.decode(Array(line.utf8).span).flatMap { CourierNonce($0.span) == nil ? nil : $0 }
      })
  }

  private static func isBelieved(_ bytes: [UInt8], _ nowMilliseconds: Int64) -> Bool {
    guard let nonce = CourierNonce(bytes.span) else { return false }
    return Int64(clamping: nonce.milliseconds) >= nowMilliseconds - Limits.courierNonceSeconds
      * 1000
  }
}
