import ApusCommand
import ApusDevice
import ApusLog
import ApusModel
import ApusServer
import ApusWire
import Synchronization

/// The identity of the device of `apus listen`: given as files, or requested from the service at the first start.
struct ListenIdentity: Sendable {
  private let invocation: Invocation
  private let couriers: [HostPort]

  /// - Parameter couriers: The service's listeners for devices, at least one.
  init(_ invocation: Invocation, _ couriers: [HostPort]) {
    self.invocation = invocation
    self.couriers = couriers
  }

  /// The identity, and the file in which it is renewed; the file is nil for an identity in two files, which never
  /// changes.
  func find() throws(CommandFailure) -> (DeviceIdentity, DeviceIdentityFile?) {
    guard let path = invocation[EnrolmentOptions.identity] else {
      if invocation.isGiven(EnrolmentOptions.enroll) {
        throw invocation.missing(EnrolmentOptions.identity.description)
      }
      return (try given(), nil)
    }
    if invocation.isGiven(ApusOptions.deviceCertificate)
      || invocation.isGiven(ApusOptions.deviceKey)
    {
      throw invocation.failure(
        about: EnrolmentOptions.identity, "it cannot be combined with a certificate or a key",
        remedy: "Give one file with --identity, or two with --certificate and --key.")
    }
    let file = DeviceIdentityFile(path: path)
    let kept: (keyPEM: String, certificatePEM: String?)?
    do {
      kept = try file.read()
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    if let kept, let certificatePEM = kept.certificatePEM {
      return (DeviceIdentity(certificatePEM: certificatePEM, keyPEM: kept.keyPEM), file)
    }
    return (try enroll(file, keyPEM: kept?.keyPEM), file)
  }

  private func given() throws(CommandFailure) -> DeviceIdentity {
    guard invocation.isGiven(ApusOptions.deviceCertificate) else {
      var failure = invocation.missing(ApusOptions.deviceCertificate.description)
      failure.remedy =
        (failure.remedy ?? "")
        + "\nA device without a certificate requests one with --identity FILE."
      throw failure
    }
    let pem = try invocation.certificateAndKey(
      ApusOptions.deviceCertificate, ApusOptions.deviceKey)
    return DeviceIdentity(certificatePEM: pem.certificate, keyPEM: pem.key)
  }

  // MARK: The first start

  private func enroll(
    _ file: DeviceIdentityFile, keyPEM: String?
  ) throws(CommandFailure) -> DeviceIdentity {
    let authority = try invocation.authority(ApusOptions.authority, of: couriers[0], .courier)
      .map { String(decoding: $0, as: UTF8.self) }
    let name = invocation[EnrolmentOptions.name] ?? Process.hostName ?? "device"
    let code = invocation[EnrolmentOptions.enroll]
    let tags = invocation.all(EnrolmentOptions.tags).map(\.text)
    let key: String
    let fingerprint: String
    do {
      if let keyPEM {
        key = keyPEM
      } else {
        // Saved before the request: if the response is lost, the same key gets it again.
        key = try DeviceIdentity.makeKey()
        try file.write(keyPEM: key)
      }
      fingerprint = try DeviceIdentity.fingerprint(ofKey: key)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    let result = Mutex<DeviceIdentity?>(nil)
    let (log, isJSON) = (Log(invocation), invocation.isOn(ApusOptions.json))
    try runBlocking { () async throws(CommandFailure) in
      do {
        let identity = try await PushDevice.enroll(
          host: couriers[0].host, port: couriers[0].port,
          alternatives: couriers.dropFirst().map { DeviceAddress(host: $0.host, port: $0.port) },
          authorityPEM: authority, code: code, name: name, tags: tags, keyPEM: key,
          whilePending: { seconds in
            log(
              .notice, "the operator has not decided yet", .text("key", fingerprint),
              .number("asks_again_s", seconds))
            if isJSON {
              Output.json(
                .members([
                  "event": .string("pending"), "key": .string(fingerprint),
                  "retry_seconds": .integer(Int64(seconds)),
                ]))
            }
          })
        try file.write(identity)
        result.withLock { $0 = identity }
      } catch {
        throw Self.failure(error)
      }
    }
    guard let identity = result.withLock({ $0 }) else {
      preconditionFailure("no failure, and no identity")
    }
    if isJSON {
      Output.json(
        .members([
          "event": .string("enrolled"), "device_id": identity.deviceID.map(JSONValue.string),
          "identity_file": .string(file.path),
        ]))
    }
    log(.notice, "enrolled", .text("device", identity.deviceID ?? ""), .text("file", file.path))
    return identity
  }

  private static func failure(_ error: any Error) -> CommandFailure {
    guard let error = error as? DeviceError else { return CommandFailure(.failed, "\(error)") }
    switch error.code {
    case .codeRefused:
      return CommandFailure(
        .failed, error.description,
        remedy: "A code has limited uses and expires; `apus code` makes a new one.")
    case .rejected, .enrolmentRefused, .tooManyRequests:
      return CommandFailure(.failed, error.description)
    case .badConfiguration: return CommandFailure(.configuration, error.description)
    default:
      return CommandFailure(
        .unavailable, error.description,
        remedy: "The key is saved: it is safe to try again with the same file and the same code.")
    }
  }
}
