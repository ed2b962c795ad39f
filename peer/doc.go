// Package peer carries requests between nodes: HTTP/1.1 over mutual TLS 1.3, in
// which each side accepts exactly the key that the other's lease publishes.
// There is nothing to configure and no certificate authority: whoever may write
// the lease bucket is the root of trust.
//
// A process makes one [Identity]. Its [Server] answers peers, its [Client] calls
// them. Node ids are separate from keys, because a start attempt may be
// abandoned together with its id while the process keeps its key; so every
// request names the session that sends it and the session that it is meant for.
// The server looks the sender up once a connection, and refuses a request that
// is meant for an earlier session of this process.
//
// Requests, answers, trailers, event streams and upgraded connections pass
// unchanged. A request is written at most once: a failure says exactly whether a
// byte of it may have reached the peer ([NotConnected]), and nothing is ever
// sent a second time once one has.
package peer
