package import ApusLoop
package import ApusTLS
package import ApusTrust

extension DeviceConnection {
  package enum Endpoint: Sendable {
    /// Tried in order.
    case addresses([SocketAddress])
    /// Resolved for each connection.
    case host(String, port: UInt16)
  }

  /// Another address of the same service.
  package struct Alternative: Sendable {
    package var endpoint: Endpoint
    /// The name that the service's certificate must contain there; nil: that of the configuration's context.
    package var serverName: String?

    package init(endpoint: Endpoint, serverName: String?) {
      self.endpoint = endpoint
      self.serverName = serverName
    }
  }

  package struct Configuration: Sendable {
    package var endpoint: Endpoint
    /// Tried in turn when `endpoint` fails: see `AddressRotation`.
    package var alternatives: [Alternative]
    /// The local address to connect from, with port 0; nil: the system chooses.
    package var source: SocketAddress?
    /// The trusted authorities, the identity, the ALPN of `client.dialect`, and the name at `endpoint`. Devices may
    /// share it if their certificate is sent in the connect message.
    package var context: TLSContext
    /// The device's identity, if devices share `context`; nil: that of `context`. Not together with `renewal`.
    package var identity: TLSConnectionIdentity?
    package var client: CourierClient.Configuration
    package var backoff: Backoff.Configuration
    /// Only with `CourierALPN.securityV3`: the identity for the connect message. RSA.
    package var inBandIdentity: InBandIdentity?
    /// Nil: the device's certificate is not renewed.
    package var renewal: RenewalPlan?

    package init(
      endpoint: Endpoint, alternatives: [Alternative] = [], source: SocketAddress? = nil,
      context: TLSContext,
      identity: TLSConnectionIdentity? = nil,
      client: CourierClient.Configuration = CourierClient.Configuration(),
      backoff: Backoff.Configuration = Backoff.Configuration(),
      inBandIdentity: InBandIdentity? = nil, renewal: RenewalPlan? = nil
    ) {
      self.endpoint = endpoint
      self.alternatives = alternatives
      self.source = source
      self.context = context
      self.identity = identity
      self.client = client
      self.backoff = backoff
      self.inBandIdentity = inBandIdentity
      self.renewal = renewal
    }
  }

  /// A certificate with its key, sent in the connect message.
  package struct InBandIdentity: Sendable {
    package var certificateDER: [UInt8]
    package var key: PrivateKey

    package init(certificateDER: [UInt8], key: PrivateKey) {
      self.certificateDER = certificateDER
      self.key = key
    }
  }
}
