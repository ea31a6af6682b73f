import ApusThread

/// Connections for reads, which any thread may use.
///
/// Lost connections are replaced on the store's keeper thread: a thread that reads never waits for a connection to be
/// made, so a database that is away costs it nothing.
final class PostgresReaders: Sendable {
  private struct State {
    var ready: [PostgresConnection] = []
    var lent = 0
    var isClosed = false
  }

  private let state = Monitor(State())
  private let address: PostgresAddress
  private let name: String
  private let options: PostgresOptions
  /// Called when a connection is missing.
  private let onLoss: @Sendable () -> Void

  init(
    _ address: PostgresAddress, name: String, _ options: PostgresOptions,
    onLoss: @escaping @Sendable () -> Void
  ) {
    self.address = address
    self.name = name
    self.options = options
    self.onLoss = onLoss
  }

  /// Whether connections are missing.
  private var isShort: Bool {
    state.withLock { !$0.isClosed && $0.ready.count + $0.lent < options.readers }
  }

  /// Makes the missing connections. Not to be called by two threads at once.
  func replenish() throws(PostgresFault) {
    while isShort {
      let connection = try PostgresConnection(
        address, part: options.part, name: name, prepares: PostgresStatements.ofReaders,
        withinMilliseconds: options.answerMilliseconds)
      state.notify { state in
        if !state.isClosed { state.ready.append(connection) }
      }
    }
  }

  /// Reads with a connection that nobody else uses meanwhile.
  func read<Result>(
    _ body: (PostgresConnection) throws(PostgresFault) -> Result
  ) throws(StoreError) -> Result {
    let connection = try take()
    do throws(PostgresFault) {
      let result = try body(connection)
      give(back: connection)
      return result
    } catch {
      give(back: connection)
      guard error.isRolledBack else { throw .unavailable }
      throw .database(place: address.description, detail: "\(error)")
    }
  }

  private func take() throws(StoreError) -> PostgresConnection {
    let deadline = Deadline.after(milliseconds: options.readMilliseconds)
    let outcome: Result<PostgresConnection, StoreError> = state.wait { state in
      if state.isClosed { return .found(.failure(.closed)) }
      if let connection = state.ready.popLast() {
        state.lent += 1
        return .found(.success(connection))
      }
      guard state.lent > 0, !deadline.isPast else { return .found(.failure(.unavailable)) }
      return .wait(untilMilliseconds: deadline.milliseconds)
    }
    return try outcome.get()
  }

  private func give(back connection: PostgresConnection) {
    let isLost = state.notify { state in
      state.lent -= 1
      if !connection.isBroken, !state.isClosed { state.ready.append(connection) }
      return connection.isBroken && !state.isClosed
    }
    if isLost { onLoss() }
  }

  func close() {
    let connections = state.notify { state in
      state.isClosed = true
      defer { state.ready = [] }
      return state.ready
    }
    withExtendedLifetime(connections) {}
  }
}
