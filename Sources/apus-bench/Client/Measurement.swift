import ApusCommand
import ApusLoop
import ApusWire
import Synchronization

/// Runs what awaits a client to its end. Meanwhile the calling thread has a loop, and takes signals there.
///
/// - Parameter signals: Each calls `onSignal`; none: they do what they do to any program.
func runToEnd(
  _ name: String, signals: [Int32] = [], onSignal: @escaping @Sendable () -> Void = {},
  _ measure: @escaping @Sendable () async throws(CommandFailure) -> JSONValue
) throws(CommandFailure) -> JSONValue {
  let loop = EventLoop(name: name)
  let outcome = MeasurementOutcome()
  Task {
    let result: Result<JSONValue, CommandFailure>
    do throws(CommandFailure) { result = .success(try await measure()) } catch {
      result = .failure(error)
    }
    outcome.result.withLock { $0 = result }
    loop.stop()
  }
  do throws(SocketError) {
    let watchers = try signals.map { (signal) throws(SocketError) in
      try SignalWatcher(loop: loop, signal: signal) { onSignal() }
    }
    withExtendedLifetime(watchers) { loop.run() }
  } catch {
    throw CommandFailure(.failed, "\(error)")
  }
  guard let result = outcome.result.withLock({ $0 }) else {
    preconditionFailure("nothing else stops the loop")
  }
  return try result.get()
}

private final class MeasurementOutcome: Sendable {
  let result = Mutex<Result<JSONValue, CommandFailure>?>(nil)
}
