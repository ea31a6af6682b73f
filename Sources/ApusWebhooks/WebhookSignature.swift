import ApusTrust

/// The header that proves to a receiver who sent a request, when, and with which content.
///
/// `t=1795753000,v1=<64 digits>`: HMAC-SHA256, under the webhook's secret, of the time in Unix seconds, a full stop and
/// the body. While a secret is being rotated there is a `v1` for each; one that matches suffices. A receiver rejects a
/// time that differs from its own clock by more than a few minutes, so that a recorded request cannot be sent again.
package enum WebhookSignature {
  package static let header = "apus-webhook-signature"

  package static func text(
    body: [UInt8], secrets: [String], nowSeconds: Int64
  ) -> String {
    let signed = Array("\(nowSeconds).".utf8) + body
    let parts = secrets.map { secret in
      let key = Array(secret.utf8)
      return "v1=\(HMACSHA256.digest(of: signed.span, key: key.span).hex)"
    }
    return (["t=\(nowSeconds)"] + parts).joined(separator: ",")
  }
}
