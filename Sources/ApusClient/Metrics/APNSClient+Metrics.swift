extension APNSClient {
  /// What the client is doing, and has done. A client that was closed has nothing to say: all is zero.
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
