package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/exchange"
)

// Options say which container to open. What is empty is taken from the
// environment, except that AZURE_STORAGE_CONNECTION_STRING counts only where
// neither Account nor Endpoint is given.
type Options struct {
	Container string
	// Prefix is put before every key, with a slash between; it may be empty.
	Prefix string
	// Account is the storage account; else AZURE_STORAGE_ACCOUNT.
	Account string
	// Key is the account's key; else AZURE_STORAGE_KEY. Without one it is the
	// Azure SDK's default chain: environment, workload identity, managed
	// identity, the Azure command line.
	Key string
	// Endpoint is the URL of the account's blobs where it is not
	// https://ACCOUNT.blob.core.windows.net.
	Endpoint string
	// ConnectionString has all of these but Container and Prefix.
	ConnectionString string
}

func (o *Options) complete() {
	if o.ConnectionString == "" && o.Account == "" && o.Endpoint == "" {
		o.ConnectionString = os.Getenv("AZURE_STORAGE_CONNECTION_STRING")
	}
	o.Account = cmp.Or(o.Account, os.Getenv("AZURE_STORAGE_ACCOUNT"))
	o.Key = cmp.Or(o.Key, os.Getenv("AZURE_STORAGE_KEY"))
	if o.Endpoint == "" && o.Account != "" {
		o.Endpoint = "https://" + o.Account + ".blob.core.windows.net"
	}
	o.Endpoint = strings.TrimSuffix(o.Endpoint, "/")
	o.Prefix = strings.Trim(o.Prefix, "/")
}

func (o *Options) check() error {
	if o.Container == "" {
		return errors.New("the Azure container has no name; write az://CONTAINER")
	}
	if o.Prefix != "" {
		if err := bucket.CheckKey(o.Prefix); err != nil {
			return fmt.Errorf("prefix of az://%s: %w", o.Container, err)
		}
	}
	if o.ConnectionString != "" {
		return nil
	}
	if o.Endpoint == "" {
		return fmt.Errorf("az://%s: which storage account? Set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING, or add ?account=NAME to the bucket", o.Container)
	}
	if u, err := url.Parse(o.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("endpoint %q of az://%s is not a URL such as https://ACCOUNT.blob.core.windows.net", o.Endpoint, o.Container)
	}
	if o.Key != "" && o.Account == "" {
		return fmt.Errorf("az://%s: an account key needs the account's name: set AZURE_STORAGE_ACCOUNT, or add account=NAME", o.Container)
	}
	return nil
}

// Open makes a client with its own connections. It does not contact the store.
func Open(o Options) (*Bucket, error) {
	o.complete()
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Bucket{http: exchange.NewClient(), name: o.Container, prefix: o.Prefix}
	if b.prefix != "" {
		b.prefix += "/"
	}
	var err error
	if b.client, err = newClient(o, b.http, &b.clock); err == nil {
		err = primary(b.client.URL())
	}
	if err != nil {
		return nil, fmt.Errorf("az://%s: %w", o.Container, err)
	}
	return b, nil
}

func newClient(o Options, transport policy.Transporter, clock policy.Policy) (*container.Client, error) {
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: transport,
		Retry:     policy.RetryOptions{MaxRetries: -1}, // a write is sent once
		Telemetry: policy.TelemetryOptions{ApplicationID: "tenure"},

		PerCallPolicies: []policy.Policy{clock},
	}}
	if o.ConnectionString != "" {
		return container.NewClientFromConnectionString(o.ConnectionString, o.Container, options)
	}
	at := o.Endpoint + "/" + o.Container
	if o.Key != "" {
		key, err := container.NewSharedKeyCredential(o.Account, o.Key)
		if err != nil {
			return nil, fmt.Errorf("the account key: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(at, key, options)
	}
	chain, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("no Azure credentials: %w", err)
	}
	return container.NewClient(at, identity{chain}, options)
}

// identity says in one line what to do where the SDK's chain finds nothing.
type identity struct{ azcore.TokenCredential }

func (i identity) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := i.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = fmt.Errorf("no Azure credentials: give this machine a managed or workload identity, set AZURE_STORAGE_KEY or AZURE_STORAGE_CONNECTION_STRING, or run \"az login\": %w", oneLine{err})
	}
	return token, err
}

// oneLine is an error without its line breaks and rules.
type oneLine struct{ error }

func (e oneLine) Error() string {
	words := slices.DeleteFunc(strings.Fields(e.error.Error()), func(w string) bool { return strings.Trim(w, "-") == "" })
	return strings.Join(words, " ")
}

func (e oneLine) Unwrap() error { return e.error }

// primary refuses an account's second region: its reads are stale.
func primary(at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	if account, _, _ := strings.Cut(u.Host, "."); strings.HasSuffix(account, "-secondary") {
		return fmt.Errorf("%s is an account's secondary endpoint, whose reads are stale; use the primary one", u.Host)
	}
	return nil
}
