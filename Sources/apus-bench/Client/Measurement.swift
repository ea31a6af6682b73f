import ApusCommand
import ApusLoop
import ApusWire
import Synchronization

/// Runs asynchronous work to its end. Meanwhile the calling thread runs a loop that handles signals.
///
/// - Parameter signals: Signals that call `onSignal`; others keep their default action.
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
