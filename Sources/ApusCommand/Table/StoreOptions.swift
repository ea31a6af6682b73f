/// Where the service stores notifications and devices.
package enum StoreOptions {
  package static let store = Option(
    "--store", .text("ADDRESS"), in: [Verb.serve, .cluster], group: .service,
    note: "what the data directory used last, at first an embedded store",
    help: "A PostgreSQL database for notifications and devices: postgresql://...")
  package static let singleDatabase = Option(
    "--single-database", .flag, in: [Verb.serve, .store, .cluster], group: .service,
    help:
      "Accept a database without a synchronous standby: what it acknowledged can be lost with its machine."
  )
}
