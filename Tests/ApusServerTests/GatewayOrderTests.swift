import ApusModel
import ApusStore
import ApusTesting
import Testing

@Suite("The binary interface answers in the order of its frames")
struct GatewayOrderTests {
  private func service(_ workers: Int, _ store: MemoryStore) throws -> TestService {
    try TestService(
      nil,
      .init {
        $0.workers = workers
        $0.store = store
        $0.gatewayRules = Gateways.rules
      })
  }

  /// Shows that every worker has processed what was sent before, since connections are on any of them.
  private func passTurn(_ service: TestService) throws {
    let identity = try service.directory.providerIdentity()
    for _ in 0..<8 {
      let client = try service.gateway(.standard, identity: identity)
      try client.send(GatewayFrame.knownBad(1))
      try expectEnd(client, GatewayFrame.packet(2, 1))
    }
  }

  @Test(
    "500 notifications to connected and offline devices are confirmed in order",
    arguments: [1, 2])
  func pipeline(workers: Int) throws {
    let service = try service(workers, MemoryStore())
    defer { service.stop() }
    let present = try (0..<4).map { _ in try service.connect() }
    var tokens = try present.map { try hex($0.token()) }
    for device in present { try device.enable(TestDirectory.topic) }
    for _ in 0..<4 { tokens.append(try service.absentToken()) }
    // Repeated identifiers, and 0.
    let identifiers = (0..<500).map { (index: UInt32) -> UInt32 in
      if index % 7 == 0 { return 0 }
      return index % 11 == 0 ? 5 : index
    }
    var sent: [[[UInt8]]] = tokens.map { _ in [] }
    var frames: [UInt8] = []
    for (index, identifier) in identifiers.enumerated() {
      let payload = GatewayFrame.payload("\(index)")
      let expiration: UInt32 = index % 3 == 0 ? 0 : 0x7fff_ffff
      let token = tokens[index % 8]
      sent[index % 8].append(payload)
      frames +=
        index % 2 == 0
        ? GatewayFrame.framed(identifier, token, payload, expiration: expiration)
        : GatewayFrame.enhanced(identifier, token, payload, expiration: expiration)
    }
    let client = try service.gateway(
      .confirming, identity: service.directory.providerIdentity())
    try client.send(frames, GatewayFrame.knownBad(0xbad))
    for (device, payloads) in zip(present, sent) {
      for payload in payloads {
        let notification = try device.notification()
        #expect(notification[3] == payload)
        try device.acknowledge(notification)
      }
    }
    let confirmations = identifiers.flatMap { GatewayFrame.packet(0, $0) }
    try expectEnd(client, GatewayFrame.packet(2, 0xbad), behind: confirmations)
    #expect(service.service.counts()[.received] == 500)
  }

  @Test(
    "An error packet waits until the previous notification is durable", arguments: [1, 2],
    [Gateways.Listener.standard, .confirming])
  func durability(workers: Int, listener: Gateways.Listener) throws {
    let store = MemoryStore()
    let service = try service(workers, store)
    defer {
      store.releaseCommits()
      service.stop()
    }
    let token = try service.absentToken()
    // The device's record must not be what is delayed.
    try service.connect().settle()
    let client = try service.gateway(listener, identity: service.directory.providerIdentity())
    store.holdCommits()
    try client.send(GatewayFrame.framed(1, token), GatewayFrame.knownBad(2))
    try waitUntil("the notification to be handed to the store") { store.pendingCommitCount > 0 }
    try passTurn(service)
    #expect(try client.tls.isQuiet())
    store.releaseCommits()
    try expectEnd(
      client, GatewayFrame.packet(2, 2),
      behind: listener == .confirming ? GatewayFrame.packet(0, 1) : [])
  }

  @Test(
    "Of 40 frames with a bad token in one write, earlier ones are accepted, later ones are not",
    arguments: [1, 2], [0, 5, 31, 32, 39])
  func badTokenInside(workers: Int, place: Int) throws {
    let store = MemoryStore()
    let service = try service(workers, store)
    defer {
      store.releaseCommits()
      service.stop()
    }
    let tokens = try (0..<4).map { _ in try service.absentToken() }
    try service.connect().settle()
    let client = try service.gateway(
      .confirming, identity: service.directory.providerIdentity())
    store.holdCommits()
    var frames: [UInt8] = []
    for index in 0..<40 {
      var token = tokens[index % 4]
      if index == place { token[20] ^= 1 }
      // Every other one must be stored, and is not durable when the others are discarded.
      frames += GatewayFrame.framed(
        UInt32(index), token, expiration: index % 2 == 0 ? 0x7fff_ffff : 0)
    }
    try client.send(frames)
    if place > 0 {
      try waitUntil("the first one to be handed to the store") { store.pendingCommitCount > 0 }
      try passTurn(service)
      #expect(try client.tls.isQuiet())
    }
    store.releaseCommits()
    try expectEnd(
      client, GatewayFrame.packet(8, UInt32(place)),
      behind: (0..<place).flatMap { GatewayFrame.packet(0, UInt32($0)) })
    #expect(service.service.counts()[.received, default: 0] == UInt64(place))
  }

  @Test("A store failure is a processing error, and nothing after it is confirmed")
  func failure() throws {
    let store = MemoryStore()
    let service = try service(2, store)
    defer { service.stop() }
    let tokens = try (0..<4).map { _ in try service.absentToken() }
    let identity = try service.directory.providerIdentity()
    for listener in [Gateways.Listener.confirming, .standard] {
      let client = try service.gateway(listener, identity: identity)
      if listener == .confirming {
        try client.send(GatewayFrame.framed(1, tokens[0]))
        #expect(try client.packet() == GatewayFrame.packet(0, 1))
      }
      store.failNextCommits(.max, with: .unavailable)
      try client.send((0..<8).flatMap { GatewayFrame.framed(UInt32(20 + $0), tokens[$0 % 4]) })
      try expectEnd(client, GatewayFrame.packet(1, 20))
      store.failNextCommits(0, with: .unavailable)
      // The next one is accepted again.
      let next = try service.gateway(.confirming, identity: identity)
      try next.send(GatewayFrame.framed(3, tokens[1]))
      #expect(try next.packet() == GatewayFrame.packet(0, 3))
    }
  }

  @Test("A notification that needs no store is accepted while the store fails")
  func notStored() throws {
    let store = MemoryStore()
    let service = try service(2, store)
    defer { service.stop() }
    let device = try service.connect()
    let token = try hex(device.token())
    try device.enable(TestDirectory.topic)
    store.failNextCommits(.max, with: .unavailable)
    let client = try service.gateway(
      .confirming, identity: service.directory.providerIdentity())
    try client.send(GatewayFrame.framed(1, token, expiration: 0))
    #expect(try client.packet() == GatewayFrame.packet(0, 1))
    try device.acknowledge(device.notification())
  }

  @Test("A slow store delays a provider, and nobody else", arguments: [1, 2])
  func heldBack(workers: Int) throws {
    let store = MemoryStore()
    let service = try service(workers, store)
    defer {
      store.releaseCommits()
      service.stop()
    }
    let device = try service.connect()
    let reachable = try hex(device.token())
    try device.enable(TestDirectory.topic)
    let token = try service.absentToken()
    try device.settle()
    let identity = try service.directory.providerIdentity()
    let client = try service.gateway(.confirming, identity: identity)
    let other = try service.gateway(.confirming, identity: identity)
    store.holdCommits()
    let count = 3 * Limits.binaryWindowFrames
    try client.send((0..<count).flatMap { GatewayFrame.framed(UInt32($0), token) })
    // A notification that its device acknowledges needs no store.
    try other.send(GatewayFrame.framed(1, reachable))
    try device.acknowledge(device.notification())
    #expect(try other.packet() == GatewayFrame.packet(0, 1))
    try passTurn(service)
    #expect(try client.tls.isQuiet())
    // As much was read as fits into one window and one read.
    let received = Int(service.service.counts()[.received] ?? 0)
    #expect(received < count)
    store.releaseCommits()
    let confirmations = (0..<count).flatMap { GatewayFrame.packet(0, UInt32($0)) }
    #expect(try client.tls.take(6 * count) == confirmations)
  }
}
