package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// tokens gives requests an access token. A new one is fetched in the background
// while the old one is good, so that no lease has to wait for it. A nil *tokens
// gives none.
type tokens struct {
	find func() (oauth2.TokenSource, error) // the credentials, read anew

	mu      sync.Mutex
	source  oauth2.TokenSource
	current *oauth2.Token
	tried   time.Time
	err     error         // of the last attempt
	busy    chan struct{} // closed at the end of the attempt under way; nil without one
}

const (
	renewBefore = 5 * time.Minute // before its end, a token is renewed
	usableUntil = 2 * time.Second // before its end, a token is used
	retryAfter  = 5 * time.Second
)

func findTokens(ctx context.Context) (*tokens, error) {
	// A token may be fetched long after Open, and must not hang for ever.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Timeout: 20 * time.Second})
	find := func() (oauth2.TokenSource, error) {
		c, err := google.FindDefaultCredentials(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("no Google credentials: %w; run \"gcloud auth application-default login\", set GOOGLE_APPLICATION_CREDENTIALS, or run where a service account is attached", err)
		}
		return c.TokenSource, nil
	}
	source, err := find()
	if err != nil {
		return nil, err
	}
	return &tokens{find: find, source: source}, nil
}

// authorize adds the token to a request.
func (t *tokens) authorize(ctx context.Context, r *http.Request) error {
	if t == nil {
		return nil
	}
	token, err := t.token(ctx)
	if err != nil {
		return fmt.Errorf("no access token: %w", err)
	}
	token.SetAuthHeader(r)
	return nil
}

func (t *tokens) token(ctx context.Context) (*oauth2.Token, error) {
	for {
		token, busy, err := t.look()
		if token != nil || err != nil {
			return token, err
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns a usable token, why there is none, or what to wait for.
func (t *tokens) look() (*oauth2.Token, chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	recent := now.Sub(t.tried) < retryAfter && (t.current != nil || t.err != nil)
	if t.busy == nil && !recent && !valid(t.current, now.Add(renewBefore)) {
		t.tried, t.busy = now, make(chan struct{})
		go t.fetch(t.source)
	}
	switch {
	case valid(t.current, now.Add(usableUntil)):
		return t.current, nil, nil
	case t.busy != nil:
		return nil, t.busy, nil
	case t.err != nil:
		return nil, nil, t.err
	}
	return nil, nil, errors.New("the one that was given has ended already; is this machine's clock right?")
}

func valid(t *oauth2.Token, at time.Time) bool {
	return t != nil && t.AccessToken != "" && (t.Expiry.IsZero() || at.Before(t.Expiry))
}

func (t *tokens) fetch(source oauth2.TokenSource) {
	var err error
	if source == nil {
		source, err = t.find()
	}
	var token *oauth2.Token
	if err == nil {
		token, err = source.Token()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.source, t.current = source, token
	}
	t.err = err
	close(t.busy)
	t.busy = nil
}

// forget gives up a token that the store did not take, and what made it, unless
// it is quite new.
func (t *tokens) forget() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.tried) >= retryAfter {
		t.source, t.current = nil, nil
	}
}
