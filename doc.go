// Package tenure gives every cell exactly one owner in a fleet whose only
// shared thing is an object-store bucket.
//
// A cell is a chat room, a tenant, a device, a job: anything with a name. A
// program starts a [Node], and then either acquires cells itself,
//
//	n, err := tenure.Start(ctx, tenure.Config{Bucket: "s3://my-bucket"})
//	own, err := n.Acquire(ctx, "billing")
//	work(own.Context(), own.Epoch()) // until the context ends
//	own.Release(ctx)
//
// or has cells activated when requests come for them, with a [Host]:
//
//	n, err := tenure.Start(ctx, tenure.Config{Bucket: "s3://my-bucket", Host: host})
//	http.ListenAndServe(addr, n.Handler()) // here or to the owner
//
// The epoch of an ownership is a fencing token: whatever a cell writes to other
// systems should carry it, so that they can refuse an owner that has been
// replaced. docs/protocol.md has the protocol and what it guarantees.
package tenure
