import ApusAdmin
import ApusLog
import ApusLoop
import ApusModel
import ApusWire

// The header in which a proxy names its client. Until it is complete the connection counts for no address, because its
// proxy may have thousands of them; the deadline of the handshake includes it.

extension Connection {
  func readProxyHeader() {
    let buffer = unsafe UnsafeMutableRawBufferPointer(
      rebasing: receiveBuffer[..<(Limits.proxyHeaderBytes - untrusted.waiting.count)])
    switch unsafe socket.read(into: buffer) {
    case .bytes(let count):
      unsafe untrusted.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    case .wouldBlock: return
    // Proxies check in this way whether the service is there.
    case .endOfStream, .failed: return abort()
    }
    switch untrusted.proxyHeader {
    case .incomplete: return
    case .relayed(let client, let byteCount):
      goOn(as: SocketAddress(client), headerByteCount: byteCount)
    case .direct(let byteCount): goOn(as: peer, headerByteCount: byteCount)
    case .malformed(let fault): refuseProxyHeader(fault)
    }
  }

  private func goOn(as client: SocketAddress, headerByteCount: Int) {
    guard table.identify(self, as: client, headerByteCount: headerByteCount) else {
      return abort()
    }
    if !untrusted.waiting.isEmpty { shakeHands() }
  }

  private func refuseProxyHeader(_ fault: ProxyHeaderFault) {
    context.ended.count(.proxy)
    logLimited(.notice, .proxyHeaderRefused) {
      [
        .text("peer", peer.description), .text("listener", listener.name),
        .text("reason", fault.description),
        .text(
          "remedy", "have the proxy send the header (HAProxy: send-proxy-v2), or drop +proxy"),
      ]
    }
    abort()
  }
}

extension SocketAddress {
  init(_ address: ProxiedAddress) {
    self =
      switch address {
      case .ipv4(let number, let port): .ipv4(number, port: port)
      case .ipv6(let high, let low, let port): .ipv6(high: high, low: low, port: port).unmapped
      }
  }
}
