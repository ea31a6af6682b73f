import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusWire
import Synchronization

/// Remembers the nonces of signed connect messages for as long as their times are accepted, even over restarts.
///
/// All workers share it, because a replay can arrive at any of them. Each nonce is appended to a file without a sync:
/// the system writes it even if the service is killed. Only a power loss loses the last seconds.
final class ReplayGuard: Sendable {
  private struct State: ~Copyable {
    var recent: Set<[UInt8]> = []
    var older: Set<[UInt8]> = []
    var turnedMilliseconds: Int64 = 0
    /// The file of the recent half; nil if nothing is kept over a restart.
    var file: OpenFile?
  }

  private let state: Mutex<State>
  private let path: String?
  private let log: Log?

  /// Nonces in each half. At the limit every nonce is rejected until the next exchange of the halves. A flood of signed
  /// messages needs a certificate, so its origin is known.
  private static let capacity = 1_000_000
  /// A nonce is accepted from 300 s before its time to 300 s after.
  private static let turnMilliseconds = 2 * Limits.courierNonceSeconds * 1000

  /// Keeps nothing over a restart.
  init() {
    (path, log) = (nil, nil)
    state = Mutex(State())
  }

  /// - Parameter path: the file of the recent half. The older half is in a file with `.old` appended to its name.
  init(path: String, log: Log, nowMilliseconds: Int64) {
    (self.path, self.log) = (path, log)
    var opening = State()
    opening.turnedMilliseconds = nowMilliseconds
    do throws(FileError) {
      let known = try Self.read("\(path).old").union(Self.read(path))
      opening.recent = known.filter { Self.isBelieved($0, nowMilliseconds) }
      // Merges the files and drops expired nonces, so that the file does not grow with each start. Without any there
      // is nothing that a start has to wait for.
      if opening.recent.isEmpty {
        Files.remove(path)
      } else {
        let text = opening.recent.map(Self.line).joined()
        try Files.write(text, to: path, isPrivate: true)
      }
      Files.remove("\(path).old")
      opening.file = try OpenFile(appendingTo: path)
    } catch {
      log(.error, Log.Kind.noncesNotKept.event, .text("reason", error.description))
    }
    state = Mutex(opening)
  }

  /// True if the nonce is new; it is then remembered.
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

  /// A write error does not reject the device: this process remembers the nonce anyway.
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

  /// Ignores a line that a power loss cut off.
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
