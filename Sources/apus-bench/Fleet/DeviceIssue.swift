import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// Makes devices: an id and a certificate for each, from the authority of a data directory.
struct DeviceIssue {
  /// The data directory.
  let data: String
  var keepsSessions = true

  /// Calls `body` with what each of the devices with these numbers needs to connect.
  func issue(
    _ numbers: Range<Int>, to address: SocketAddress,
    _ body: (DeviceConnection.Configuration) -> Void
  ) throws(CommandFailure) {
    let trusted = try readText("\(data)/authority/service.crt")
    let certificate = try readText("\(data)/authority/devices.crt")
    let key = try readText("\(data)/authority/devices.key")
    do {
      let authority = try CertificateAuthority(certificatePEM: certificate, keyPEM: key)
      // One key for all: what is looked at is the service.
      let shared = try PrivateKey.generateP256()
      let key = try TLSIdentityKey(PEM: Array(shared.pkcs8PEM.utf8))
      // As `apus device` has it: those that end soon are warned of, which is another thing to measure.
      let validity = Validity(now: Int64(time(nil)), days: 730)
      var configuration = TLSClientConfiguration(
        trustRoots: .authorities(PEM: Array(trusted.utf8)),
        applicationProtocols: [CourierALPN.apus.name.description],
        // The authority stands in the service's own data directory and signs for nobody else.
        verifiesHost: false, keepsSessions: keepsSessions)
      configuration.allowsCompaction = true
      let context = try TLSContext(client: configuration)
      for index in numbers {
        let device = try authority.issueDevice(
          deviceID: Fleet.deviceID(index), name: "fleet \(index)", publicKey: shared.publicKey,
          validity: validity)
        body(
          DeviceConnection.Configuration(
            endpoint: .addresses([address]), context: context,
            identity: TLSConnectionIdentity(certificateDER: device.der, key: key)))
      }
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }
}
