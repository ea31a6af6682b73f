import Foundation
import PostgresServer
import Testing

/// A service whose store is a PostgreSQL database.
@Suite("A store in PostgreSQL, from the command line", .serialized)
struct DatabaseStoreTests {
  private let address: String

  init() throws {
    address = try PostgresServer.shared.address(of: "apus-\(UUID().uuidString.lowercased())")
  }

  @Test("What a service stored there outlives its kill, and reaches the device once")
  func kill() throws {
    let installation = try Installation()
    let options = ["--store", address, "--single-database"]
    try installation.start(options)
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try installation.send(1, to: token, lifetimeSeconds: 3600)
    installation.service?.stop(SIGKILL)
    #expect(
      try installation.run(["store"]) == "The store is intact; it has 1 notification.\n")
    // The directory remembers the address.
    try installation.start(["--single-database"])
    #expect(try device.connect() == token)
    #expect(try device.shown(atLeast: 1) == [1])
    let log = try installation.run(["log", "--token", token])
    #expect(log.contains("Delivered"), "\(log)")
    #expect(try installation.run(["check"]).contains("store"))
    let backup = try installation.run(["backup", installation.directory.path + "-backup"])
    #expect(backup.contains("are in a database, which has to be backed up as well"), "\(backup)")
    try FileManager.default.removeItem(atPath: installation.directory.path + "-backup")
    installation.service?.stop()
    #expect(
      try installation.run(["store"]) == "The store is intact; it has 0 notifications.\n")
  }

  @Test("A service moves to a database and back, with its tokens and its notifications")
  func copy() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try installation.send(1, to: token, lifetimeSeconds: 3600)
    installation.service?.stop()

    let out = try installation.run(
      ["store", "copy", "embedded", address, "--single-database"])
    #expect(out.contains("The data directory now uses postgresql://"), "\(out)")
    try installation.start(["--single-database"])
    try installation.send(2, to: token, lifetimeSeconds: 3600)
    installation.service?.stop(SIGKILL)

    let back = try installation.run(
      ["store", "copy", address, "embedded", "--single-database"])
    #expect(back.contains("The data directory now uses the embedded store."), "\(back)")
    try installation.start()
    #expect(try device.connect() == token)
    // One app's newer notification replaced the older one.
    #expect(try device.shown(atLeast: 1) == [2])
    let log = try installation.run(["log", "--token", token])
    #expect(log.contains("Replaced") || log.contains("Collapsed"), "\(log)")
    device.disconnect()
    installation.service?.stop()

    let refusal = try installation.run(
      ["serve", "--store", address, "--single-database"], expecting: 4)
    #expect(refusal.contains("has a store of its own"), "\(refusal)")
    let again = try installation.run(
      ["store", "copy", "embedded", address, "--single-database"], expecting: 4)
    #expect(again.contains("copied to another store"), "\(again)")
  }

  @Test("A database that went back in time is refused, and accepted with the loss of its tokens")
  func olderDatabase() throws {
    let installation = try Installation()
    let options = ["--store", address, "--single-database"]
    try installation.start(options)
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try installation.send(1, to: token, lifetimeSeconds: 3600)
    // How far the database is, is noted about once a second.
    sleep(2)
    installation.service?.stop()
    let path = try #require(address.split(separator: "?").first)
    let database = try #require(path.split(separator: "/").last)
    try PostgresServer.shared.sql("UPDATE apus.lane SET n = 0", in: String(database))
    let refusal = try installation.run(["serve", "--single-database"], expecting: 4)
    #expect(refusal.contains("lacks writes that it had acknowledged"), "\(refusal)")
    #expect(refusal.contains("apus store --accept-loss"), "\(refusal)")
    let accepted = try installation.run(["store", "--accept-loss", "--single-database"])
    #expect(accepted.contains("1 device token ended"), "\(accepted)")
    try installation.start(["--single-database"])
    #expect(try device.connect() != token)
    #expect(throws: Trouble.self) { try installation.send(2, to: token) }
  }

  @Test("Neither a store of one's own nor a database of another directory is put aside silently")
  func mismatches() throws {
    let first = try Installation()
    let options = ["--store", address, "--single-database"]
    try first.start(options)
    try _ = first.device("phone").connect()
    // While it runs.
    let second = try Installation()
    var refusal = try second.run(["serve"] + options, expecting: 4)
    #expect(refusal.contains("is in use"), "\(refusal)")
    first.service?.stop()
    refusal = try second.run(["serve"] + options, expecting: 4)
    #expect(refusal.contains("has the rows of another data directory"), "\(refusal)")
    refusal = try first.run(["serve", "--store", "embedded"], expecting: 4)
    #expect(refusal.contains("are in a PostgreSQL database"), "\(refusal)")
    refusal = try first.run(["serve", "--store", address], expecting: 4)
    #expect(refusal.contains("synchronous_standby_names"), "\(refusal)")
    refusal = try first.run(["serve", "--store", "mysql://db/apus"], expecting: 2)
    #expect(refusal.contains("--store: mysql://db/apus is neither"), "\(refusal)")
  }

  @Test("The tables and statements are printed for the database's administrator")
  func schema() throws {
    let text = try Installation().run(["store", "schema"])
    #expect(text.contains("CREATE TABLE apus.lane") && text.contains("ON CONFLICT (key) DO UPDATE"))
  }
}
