import ApusHTTP2

/// A request that waits for the store or for upstream. Only its worker's thread looks into it.
struct WaitingRequest: @unchecked Sendable {
  let provider: HTTP2Provider
  let request: HTTP2Request
}
