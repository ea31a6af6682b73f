import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// `apus-bench fleet`: gives each device its certificate, and runs the loop that all of them live on.
struct FleetCommand {
  let invocation: Invocation
  private let data: String

  init(_ invocation: Invocation) {
    self.invocation = invocation
    data = invocation.value(BenchOptions.data)
  }

  func run() throws(CommandFailure) {
    raiseDescriptorLimit()
    let topic = Array(invocation.value(BenchOptions.topic).utf8)
    let hash = TopicHash(of: topic.span)
    let loop = EventLoop(name: "fleet")
    let fleet = Fleet(
      loop: loop, topic: hash, tokensPath: invocation[BenchOptions.printTokens],
      exitsAfterRegistration: invocation.isOn(BenchOptions.exitAfterRegistration))
    try addDevices(to: fleet)
    do throws(SocketError) {
      let signals = try [SIGINT, SIGTERM].map { (signal) throws(SocketError) in
        try SignalWatcher(loop: loop, signal: signal) { fleet.stop() }
      }
      // A watcher that is released watches no longer, and an optimiser may release what is not used again.
      withExtendedLifetime(signals) {
        fleet.start()
        loop.run()
      }
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    print(fleet.summary.text)
    if let failure = fleet.failure { throw failure }
  }

  private func addDevices(to fleet: Fleet) throws(CommandFailure) {
    let trusted = try readText("\(data)/authority/service.crt")
    let certificate = try readText("\(data)/authority/devices.crt")
    let key = try readText("\(data)/authority/devices.key")
    let address: SocketAddress
    do throws(SocketError) {
      address = try SocketAddress(invocation.value(BenchOptions.connect).description)
    } catch {
      throw invocation.failure(about: BenchOptions.connect, "\(error)")
    }
    do {
      let authority = try CertificateAuthority(certificatePEM: certificate, keyPEM: key)
      // One key for all: what is measured is the service.
      let shared = try PrivateKey.generateP256()
      let sharedPEM = Array(shared.pkcs8PEM.utf8)
      let validity = Validity(now: Int64(time(nil)), days: 1)
      for index in 0..<(invocation[BenchOptions.devices] ?? 0) {
        let device = try authority.issueDevice(
          deviceID: Fleet.deviceID(index), name: "fleet \(index)", publicKey: shared.publicKey,
          validity: validity)
        let context = try TLSContext(
          client: TLSClientConfiguration(
            trustRoots: .authorities(PEM: Array(trusted.utf8)),
            identity: TLSIdentity(
              certificateChainPEM: Array(device.pem.utf8), privateKeyPEM: sharedPEM),
            applicationProtocols: [CourierALPN.apus.name.description],
            // The authority stands in the service's own data directory and signs for nobody else.
            verifiesHost: false))
        fleet.add(
          DeviceConnection.Configuration(endpoint: .addresses([address]), context: context))
      }
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }
}
