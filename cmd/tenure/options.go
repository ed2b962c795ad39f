package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-go/tenure"
)

// serveOptions are the flags of "tenure serve".
type serveOptions struct {
	bucket, leaseBucket           string
	listen, peerListen, advertise string
	adminListen, adminToken       string
	name, zone, app, route        string

	leaseTTL, failoverWait, idleAfter time.Duration
	requestTimeout, drainTimeout      time.Duration

	maxCells, maxActivations, maxReleases, maxQueue int

	logFormat, logLevel, readyFile, trace string
}

const (
	defaultBucket = "sqlite:.tenure/fleet.db"
	defaultRoute  = "path:/cells/{cell}/"
	demoApp       = "demo"
	maxLeaseTTL   = 24 * time.Hour
)

func (o *serveOptions) define(f *pflag.FlagSet) {
	f.SortFlags = false
	o.defineAddresses(f)
	o.defineApplication(f)
	o.defineBounds(f)
	f.StringVar(&o.logFormat, "log-format", "text", "`FORMAT` of the log on stderr: text or json")
	f.StringVar(&o.logLevel, "log-level", "info", "least `LEVEL` that is logged: debug, info, warn or error")
	f.StringVar(&o.trace, "trace", "", "`FILE` in which every decision is recorded, for \"tenure replay\"; older\n"+
		"ones are kept as FILE.1 to FILE.3, 64 MiB each")
	f.StringVar(&o.readyFile, "ready-file", "", "`PATH` of a file that is there while the node is ready (holds its\n"+
		"lease): a JSON object with node, listen, peer and admin")
}

func (o *serveOptions) defineAddresses(f *pflag.FlagSet) {
	f.StringVar(&o.bucket, "bucket", defaultBucket, "`BUCKET` that the fleet shares: sqlite:PATH, s3://NAME[/PREFIX],\n"+
		"gs://NAME[/PREFIX] or az://CONTAINER[/PREFIX]; S3 takes ?endpoint=URL&\n"+
		"region=R&path_style=true or the usual AWS variables, Azure ?account=NAME&\n"+
		"endpoint=URL or AZURE_STORAGE_ACCOUNT; credentials come from the\n"+
		"environment (docs/stores.md)")
	f.StringVar(&o.leaseBucket, "lease-bucket", "", "`BUCKET` of the node leases")
	describeDefault(f, "lease-bucket", "the bucket, by a client of its own")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "public HTTP `ADDRESS`")
	f.StringVar(&o.peerListen, "peer-listen", "127.0.0.1:0", "`ADDRESS` for other nodes (mutual TLS); port 0 is any free one")
	f.StringVar(&o.advertise, "advertise", "", "`ADDRESS` at which other nodes reach this one")
	describeDefault(f, "advertise", "the address bound")
	f.StringVar(&o.adminListen, "admin-listen", "127.0.0.1:0", "operator HTTP `ADDRESS`, or unix:PATH, or \"\" for none; one that is\n"+
		"not loopback needs --admin-token")
	f.StringVar(&o.adminToken, "admin-token", "", "bearer `TOKEN` that operator HTTP asks for, but for its health paths;\n"+
		"better given by its variable, which \"ps\" does not show")
	f.StringVar(&o.name, "name", "", "`NAME` that the node's id begins with")
	describeDefault(f, "name", "the host name, made safe")
	f.StringVar(&o.zone, "zone", "", "`ZONE`, for people and placement")
}

func (o *serveOptions) defineApplication(f *pflag.FlagSet) {
	f.StringVar(&o.app, "app", "", "`URL` of the application: http://host:port or unix:PATH")
	describeDefault(f, "app", "the built-in demo")
	f.StringVar(&o.route, "route", defaultRoute, "`ROUTE`: where a request names its cell")
	f.DurationVar(&o.leaseTTL, "lease-ttl", 0, "`DURATION` of a node lease, fixed by the fleet's first node; at least\n"+
		"1s, on Google Cloud Storage 5s")
	describeDefault(f, "lease-ttl", "the fleet's; 10s for a new fleet")
	f.DurationVar(&o.failoverWait, "failover-wait", 0, "`DURATION` that a request may wait for an owner that cannot be\n"+
		"reached and is not provably dead yet")
	f.DurationVar(&o.requestTimeout, "request-timeout", 30*time.Second, "`DURATION` that a request may wait for its answer to begin")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 25*time.Second, "`DURATION` that a drain may take")
}

func (o *serveOptions) defineBounds(f *pflag.FlagSet) {
	f.DurationVar(&o.idleAfter, "idle-after", 10*time.Minute, "`DURATION` without a request after which a cell is given up;\n"+
		"0s: never")
	describeDefault(f, "idle-after", "10m")
	f.IntVar(&o.maxCells, "max-cells", 0, "most resident `CELLS`; 0: no limit")
	f.IntVar(&o.maxActivations, "max-activations", 8*runtime.GOMAXPROCS(0), "most `CELLS` being claimed and activated at once")
	describeDefault(f, "max-activations", fmt.Sprintf("8 per CPU, here %d", 8*runtime.GOMAXPROCS(0)))
	f.IntVar(&o.maxReleases, "max-releases", 128, "most `CELLS` being given up at once")
	f.IntVar(&o.maxQueue, "max-queue", 10000, "most `REQUESTS` that wait for an owner")
}

// check finds what can be known to be wrong without trying it.
func (o *serveOptions) check() error {
	return first(
		o.checkDurations(),
		atLeast("max-cells", o.maxCells, 0),
		atLeast("max-activations", o.maxActivations, 1),
		atLeast("max-releases", o.maxReleases, 1),
		atLeast("max-queue", o.maxQueue, 1),
		oneOf("log-format", o.logFormat, "text", "json"),
		oneOf("log-level", o.logLevel, "debug", "info", "warn", "error"),
		checkRoute(o.route),
		checkAdmin(o.adminListen, o.adminToken),
		notEmpty("bucket", o.bucket), notEmpty("listen", o.listen), notEmpty("peer-listen", o.peerListen),
	)
}

func (o *serveOptions) checkDurations() error {
	switch {
	case o.leaseTTL != 0 && (o.leaseTTL < time.Second || o.leaseTTL > maxLeaseTTL):
		return usagef("--lease-ttl is %s, must be from 1s to 24h", o.leaseTTL)
	case o.leaseTTL%time.Millisecond != 0:
		return usagef("--lease-ttl is %s, must be whole milliseconds", o.leaseTTL)
	case o.failoverWait < 0:
		return usagef("--failover-wait is %s, must not be negative", o.failoverWait)
	case o.idleAfter < 0:
		return usagef("--idle-after is %s, must not be negative (0s: never)", o.idleAfter)
	case o.requestTimeout <= 0:
		return usagef("--request-timeout is %s, must be more than 0s", o.requestTimeout)
	case o.drainTimeout <= 0:
		return usagef("--drain-timeout is %s, must be more than 0s", o.drainTimeout)
	}
	return nil
}

func atLeast(flag string, n, low int) error {
	if n < low {
		return usagef("--%s is %d, must be at least %d", flag, n, low)
	}
	return nil
}

func oneOf(flag, value string, choices ...string) error {
	for _, c := range choices {
		if value == c {
			return nil
		}
	}
	return usagef("--%s is %q, must be one of: %s", flag, value, strings.Join(choices, ", "))
}

func notEmpty(flag, value string) error {
	if value == "" {
		return usagef("--%s must not be empty", flag)
	}
	return nil
}

func checkRoute(route string) error {
	rest, ok := strings.CutPrefix(route, "path:/")
	if !ok || !strings.Contains(rest, "{cell}") {
		return usagef("--route is %q, must be path:/…{cell}…, for example %s", route, defaultRoute)
	}
	return nil
}

// checkAdmin: whoever reaches the admin address can drain the node.
func checkAdmin(addr, token string) error {
	if addr == "unix:" {
		return usagef("--admin-listen unix: needs a path: unix:PATH")
	}
	if addr == "" || strings.HasPrefix(addr, "unix:") {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usagef("--admin-listen is %q, must be host:port or unix:PATH", addr)
	}
	ip := net.ParseIP(host)
	if token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("--admin-listen %s can be reached from elsewhere: give --admin-token (or TENURE_ADMIN_TOKEN), or a loopback address", addr)
	}
	return nil
}

// config is for options that passed check.
func (o *serveOptions) config(log *slog.Logger) tenure.Config {
	app, idle := o.app, o.idleAfter
	if app == "" {
		app = demoApp
	}
	if idle == 0 {
		idle = -1 // 0 is the default in a Config
	}
	return tenure.Config{
		Bucket: o.bucket, LeaseBucket: o.leaseBucket,
		Name: o.name, Zone: o.zone, LeaseTTL: o.leaseTTL,
		Listen: o.listen, PeerListen: o.peerListen, Advertise: o.advertise,
		AdminListen: o.adminListen, AdminToken: o.adminToken,
		App: app, Route: o.route,
		FailoverWait: o.failoverWait, IdleAfter: idle,
		MaxCells: o.maxCells, MaxActivations: o.maxActivations,
		MaxReleases: o.maxReleases, MaxQueue: o.maxQueue,
		RequestTimeout: o.requestTimeout, DrainTimeout: o.drainTimeout,
		Log: log, Trace: o.trace,
	}
}

func (o *serveOptions) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel)) // check saw to it
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
