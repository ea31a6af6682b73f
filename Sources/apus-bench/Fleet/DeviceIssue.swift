import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// Issues ids and certificates to devices, from the authority of a data directory.
struct DeviceIssue {
  /// The data directory.
  let data: String
  var keepsSessions = true

  /// Calls `body` with the identity of each device with the given numbers.
  func issue(
    _ numbers: Range<Int>, to address: SocketAddress,
    _ body: (DeviceConnection.Configuration) -> Void
  ) throws(CommandFailure) {
    let trusted = try readText("\(data)/authority/service.crt")
    let certificate = try readText("\(data)/authority/devices.crt")
    let key = try readText("\(data)/authority/devices.key")
    do {
      let authority = try CertificateAuthority(certificatePEM: certificate, keyPEM: key)
      let (shared, madeSeconds) = try sharedKey()
      let key = try TLSIdentityKey(PEM: Array(shared.pkcs8PEM.utf8))
      // The default of `apus device add`: certificates that expire soon cause warnings, which would distort the
      // measurement.
      let validity = Validity(now: madeSeconds, days: 730)
      var configuration = TLSClientConfiguration(
        trustRoots: .authorities(PEM: Array(trusted.utf8)),
        applicationProtocols: [CourierALPN.apus.name.description],
        // The authority is in the service's own data directory and signs only for this service.
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
    } catch let error as CommandFailure {
      throw error
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// One key shared by all devices, and its creation time in Unix seconds.
  ///
  /// It is stored in the data directory, so that in later runs the service knows the devices and has nothing to write.
  private func sharedKey() throws -> (PrivateKey, Int64) {
    let path = "\(data)/fleet.key"
    if unsafe access(path, F_OK) != 0 {
      // Several processes may start at once; the first one's key is used.
      let temporary = "\(path).\(getpid())"
      try writeText(try PrivateKey.generateP256().pkcs8PEM, to: temporary)
      unsafe chmod(temporary, 0o600)
      unsafe link(temporary, path)
      unsafe unlink(temporary)
    }
    let key = try PrivateKey(pem: try readText(path))
    var status = stat()
    guard unsafe stat(path, &status) == 0 else {
      throw CommandFailure(.configuration, "cannot read \(path)")
    }
    return (key, Int64(status.st_mtim.tv_sec))
  }
}
