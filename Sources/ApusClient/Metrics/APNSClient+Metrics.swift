extension APNSClient {
  /// Metrics of the client since its creation. All zero once the client is closed.
  public func metrics() async -> ClientMetrics {
    await withCheckedContinuation { continuation in
      report { continuation.resume(returning: $0) }
    }
  }

  /// What limits the client now, or limited it most: connection, streams, window, token, or the service itself.
  public func diagnose() async -> ClientDiagnosis {
    ClientDiagnosis(await metrics(), maximumConnections: maximumConnections)
  }
}
