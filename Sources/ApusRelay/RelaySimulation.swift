package import ApusCore
package import ApusLoop

/// What takes the place of a relay's thread, of chance and of the clients to upstreams in a simulation.
package struct RelaySimulation: Sendable {
  /// A simulated one: the caller takes its turns.
  package var loop: EventLoop
  /// A number from 0 to 999.
  package var entropy: @Sendable () -> UInt64
  /// Sends a notification to its app's upstream, and calls back once.
  package var sending:
    @Sendable (RelayedNotification, @escaping @Sendable (UpstreamAnswer) -> Void) -> Void

  package init(
    loop: EventLoop, entropy: @escaping @Sendable () -> UInt64,
    sending:
      @escaping @Sendable (
        RelayedNotification, @escaping @Sendable (UpstreamAnswer) -> Void
      ) -> Void
  ) {
    self.loop = loop
    self.entropy = entropy
    self.sending = sending
  }
}
