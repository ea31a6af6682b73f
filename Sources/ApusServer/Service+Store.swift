import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
package import ApusStore
import ApusThread
import ApusWebhooks
import Glibc

// What a service opens before its listeners.

extension Service {
  static var coreCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

  /// On a full disk the service starts all the same: it reads older layouts.
  static func migrate(_ directory: DataDirectory, _ log: Log) throws {
    do {
      guard let old = try directory.migrate() else { return }
      log(
        .notice, "data directory migrated", .number("from", old),
        .number("to", DataDirectory.formatVersion))
    } catch let error as FileError {
      log(.warning, "data directory not migrated", .text("reason", "\(error)"))
    }
  }

  static func openStore(
    _ configuration: ServerConfiguration, _ directory: DataDirectory
  ) throws -> any DurableStore {
    guard !configuration.isEphemeral else { return MemoryStore() }
    switch try configuration.store ?? directory.storePlace() {
    case .database(let address): return try openDatabase(address, configuration, directory)
    case .embedded, nil: return try openEmbedded(configuration, directory)
    }
  }

  private static func openDatabase(
    _ address: PostgresAddress, _ configuration: ServerConfiguration, _ directory: DataDirectory
  ) throws -> PostgresStore {
    var options = PostgresOptions()
    options.allowsSingleServer = configuration.allowsSingleDatabase
    // Less than the 90 seconds within which systemd expects the service to be ready.
    options.openingMilliseconds = 60_000
    let log = configuration.log
    options.onThreadStart = { Scheduling.preferShortSlices() }
    let node = configuration.node
    options.onEvent = { event in
      log(.warning, "store", .text("event", "\(event)"))
      if case .failed(.takenOver) = event { node?.onTakeOver() }
    }
    if let node {
      options.node = node.name
      options.parts = 0..<node.partCount
      options.standby = StandbyOptions(onHolder: node.onHolder, permission: node.permission)
    }
    let store = try directory.openDatabase(address, options)
    do {
      try directory.keepJournals(
        ofStart: store.incarnation, after: store.predecessor, part: store.part)
      return store
    } catch {
      store.close()
      throw error
    }
  }

  /// The service of a node of a cluster, once it is the node's turn to serve; nil if it gave up waiting.
  ///
  /// What is wrong with the data directory is found before.
  package static func standingBy(_ configuration: ServerConfiguration) throws -> Service? {
    let directory = DataDirectory(path: configuration.dataDirectory)
    _ = try directory.trust(generation: 0, allowsES512: configuration.allowsES512)
    while true {
      let store: any DurableStore
      do { store = try openStore(configuration, directory) } catch StoreError.closed { return nil }
      do {
        guard try configuration.node?.onTurn() ?? true else {
          store.close()
          return nil
        }
        return try Service(
          configuration.serving(store), store: store, others: otherRows(configuration, directory))
      } catch {
        store.close()
        guard let error = error as? StoreError, error.letsNodeWait else { throw error }
        configuration.log(.warning, "not serving yet", .text("reason", "\(error)"))
      }
    }
  }

  private static func otherRows(
    _ configuration: ServerConfiguration, _ directory: DataDirectory
  ) throws -> OtherRows? {
    guard let node = configuration.node, node.partCount > 1,
      case .database(let address) = try configuration.store ?? directory.storePlace()
    else { return nil }
    let databases = try directory.partDatabases(main: address)
    return { () throws(StoreError) in
      try (1..<node.partCount).map { part throws(StoreError) in
        try PostgresFollower(databases.address(of: part), node: node.name, part: part)
      }
    }
  }

  private static func openEmbedded(
    _ configuration: ServerConfiguration, _ directory: DataDirectory
  ) throws -> RocksStore {
    directory.removeInterruptedBackup()
    var options = RocksOptions()
    let log = configuration.log
    // The writers of the lines keep to the bounds; the engine follows, a table at a time.
    options.ledgerBytes = (configuration.ledgerMegabytes * 5 / 4 + 32) * 1024 * 1024
    options.ledgerSeconds = (configuration.ledgerDays + 1) * 86_400
    options.blockCacheBytes = configuration.storeCacheMegabytes * 1024 * 1024
    options.waitsForDisk = true
    options.onMessage = { text in log(.warning, "store engine", .text("message", text)) }
    // Providers wait for it as they do for a worker.
    options.onThreadStart = { Scheduling.preferShortSlices() }
    options.onEvent = { event in log(.warning, "store", .text("event", "\(event)")) }
    return try directory.openStore(options)
  }

  /// Nil where no webhook is told of anything: at an edge, and in a development service.
  static func webhooks(
    _ configuration: ServerConfiguration, _ directory: DataDirectory, _ events: EventSink,
    _ watched: WatchedEvents
  ) -> WebhookService? {
    let share = configuration.share
    guard configuration.interceptor == nil, let part = share.part else { return nil }
    return WebhookService(
      directory, part: part, sink: events, megabytes: configuration.webhookMegabytes,
      firstEvent: UInt64(EventLoop.wallClockMilliseconds()) * 1000, log: configuration.log
    ) {
      // Once for all nodes.
      guard share.isMain else { return }
      watched.report(to: $0, nowMilliseconds: EventLoop.wallClockMilliseconds())
    }
  }

  /// The channels in the store, which is closed if they cannot be read.
  static func channels(
    _ store: any DurableStore, _ order: AcceptanceOrder, _ log: Log
  ) throws -> ChannelRegister {
    do {
      return try ChannelRegister(
        store, order: order, log: log, nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    } catch {
      store.close()
      throw error
    }
  }

  /// The resends that the store says are expected. It is closed if they cannot be read.
  static func resends(_ store: any DurableStore) throws -> ResendRegister {
    do {
      return try ResendRegister(store)
    } catch {
      store.close()
      throw error
    }
  }

  /// The journals, beside the embedded store or in a folder of their own. Without one the service runs on, and its
  /// ledger has gaps after a crash.
  static func journals(
    _ configuration: ServerConfiguration, _ directory: DataDirectory, workers: Int
  ) -> LedgerJournals {
    guard !configuration.isEphemeral else { return LedgerJournals() }
    let folder =
      directory.isInDatabase
      ? directory.journalPath(ofPart: configuration.share.part ?? 0) : directory.storePath
    if directory.isInDatabase { try? Files.makeDirectory(folder) }
    return LedgerJournals(
      in: folder, workers: configuration.ledger == .off ? 0 : workers
    ) { fault in
      configuration.log(
        .warning, "no ledger journal: a crash would lose the last second of the ledger",
        .text("reason", "\(fault)"))
    }
  }
}

extension ServerConfiguration {
  /// That of a node which has opened the store of one part of the devices.
  fileprivate func serving(_ store: any DurableStore) -> ServerConfiguration {
    guard let node, let store = store as? PostgresStore,
      let share = DeviceShare(part: store.part, of: node.partCount)
    else { return self }
    var configuration = self
    configuration.share = share
    if !share.isMain { configuration.relay = nil }
    return configuration
  }
}

/// Opens the rows of part 1, part 2 and so on of a cluster's devices, on any thread.
package typealias OtherRows = @Sendable () throws(StoreError) -> [any StoreReader]

extension Service {
  /// The rows of all devices of the cluster.
  func allRows() throws(StoreError) -> any StoreReader { try dividedStore?() ?? store }

  /// Nil unless other nodes decide about other parts of the devices, and this one has what exists once.
  var otherParts: OtherParts? {
    guard let dividedStore, let links else { return nil }
    return OtherParts(configuration.share, links.others, open: dividedStore)
  }

  private var dividedStore: (@Sendable () throws(StoreError) -> DividedStore)? {
    guard let others else { return nil }
    return { [store] () throws(StoreError) in DividedStore([store] + (try others())) }
  }
}

/// The opening of a service's store, which mostly waits for the disk, on a thread of its own.
final class StoreOpening: Sendable {
  private let outcome = Monitor<Result<any DurableStore, any Error>?>(nil)

  init(_ open: @escaping @Sendable () throws -> any DurableStore) {
    startThread { [outcome] in
      let result = Result(catching: open)
      outcome.notify { $0 = result }
    }
  }

  /// Waits for its end.
  func take() throws -> any DurableStore { try outcome.take().get() }
}

/// The numbers of accepted notifications, of which the first block is becoming durable.
struct FirstNumbers {
  let order: AcceptanceOrder
  private let outcome = Monitor<StoreError??>(nil)

  /// The store is closed if it cannot be read.
  init(_ store: any DurableStore) throws {
    do {
      order = try AcceptanceOrder(store: store) { [outcome] error in
        outcome.notify { $0 = .some(error) }
      }
    } catch {
      store.close()
      throw error
    }
  }

  /// Waits until the block is durable. Returns also where the disk is full: nothing is accepted until there is room.
  func wait() throws {
    if let error = outcome.take(), !error.letsServiceRun { throw error }
  }
}
