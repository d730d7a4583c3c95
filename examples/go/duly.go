// A client of the JSON API that `duly web --api` serves, and a program that uses it:
//
//	export DULY_API=http://127.0.0.1:8420 DULY_API_TOKEN=…   # a token of the role work
//	go run duly.go produce    # pushes three jobs
//	go run duly.go work       # runs jobs until Ctrl-C or SIGTERM
//
// It needs nothing but the standard library: copy the first part into your program.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Client calls the API for one queue. Several goroutines may use it.
type Client struct {
	Base  string // such as http://127.0.0.1:8420
	Token string
	Queue string
	HTTP  *http.Client
}

// NewClient makes a client whose requests may wait for jobs.
func NewClient(base, token, queue string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// The server closes a connection that rests for 75 s: one that rested for less is still open.
	transport.IdleConnTimeout = 60 * time.Second
	transport.MaxIdleConnsPerHost = 16
	return &Client{Base: base, Token: token, Queue: queue, HTTP: &http.Client{Transport: transport, Timeout: 60 * time.Second}}
}

// Job is a reserved job. Times are unix seconds, spans are seconds.
type Job struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Key         string            `json:"key"`
	Data        json.RawMessage   `json:"data"`
	Token       uint64            `json:"token"` // proves the lease; greater for each further one
	Attempt     int               `json:"attempt"`
	Redelivered bool              `json:"redelivered"`
	Headers     map[string]string `json:"headers"`
	Timeout     float64           `json:"timeout"` // 0: as long as it likes
}

// NewJob is a job to be pushed. What is left out has its default.
type NewJob struct {
	Data        any               `json:"data"`
	Name        string            `json:"name,omitempty"`
	ID          string            `json:"id,omitempty"` // with it, a push may be repeated
	Key         string            `json:"key,omitempty"`
	OnDuplicate string            `json:"on_duplicate,omitempty"` // refuse, keep or replace
	Delay       float64           `json:"delay,omitempty"`
	MaxRetries  *int              `json:"max_retries,omitempty"`
	Timeout     float64           `json:"timeout,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// Error is what the API answers instead.
type Error struct {
	Status    int
	Kind      string `json:"kind"`
	Message   string `json:"message"`
	Transient bool   `json:"transient"` // the same request may succeed later
	JobID     string `json:"job_id"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Kind, e.Status, e.Message) }

// IsLeaseLost tells whether the job belongs to somebody else by now: stop working on it.
func IsLeaseLost(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Kind == "lease_lost"
}

// IsTransient tells whether the same request may succeed later: the API says so, or has given no answer.
func IsTransient(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Transient
	}
	return err != nil
}

// Push stores a job and gives its id.
func (c *Client) Push(ctx context.Context, job NewJob) (string, error) {
	var pushed struct {
		ID string `json:"id"`
	}
	err := c.call(ctx, http.MethodPost, "jobs", job, &pushed)
	return pushed.ID, err
}

// Reserve leases up to max jobs, and waits for a first one, for 20 s at most. There may be none.
func (c *Client) Reserve(ctx context.Context, max int, wait, lease time.Duration) ([]Job, error) {
	var reserved struct {
		Jobs []Job `json:"jobs"`
	}
	asked := map[string]any{"max": max, "wait": wait.Seconds(), "lease": lease.Seconds()}
	err := c.call(ctx, http.MethodPost, "reserve", asked, &reserved)
	return reserved.Jobs, err
}

// Ack says that the job is done, with a result for who pushed it with a result_ttl; nil for none.
func (c *Client) Ack(ctx context.Context, job Job, result any) error {
	return c.settle(ctx, job, "ack", map[string]any{"result": result})
}

// Fail says that the run failed: the job's retry policy decides when it runs again.
func (c *Client) Fail(ctx context.Context, job Job, why string) error {
	return c.settle(ctx, job, "fail", map[string]any{"error": why})
}

// Release gives the job back, without a failure.
func (c *Client) Release(ctx context.Context, job Job, after time.Duration) error {
	return c.settle(ctx, job, "release", map[string]any{"after": after.Seconds()})
}

// Extend sets the lease to end so long from now.
func (c *Client) Extend(ctx context.Context, job Job, lease time.Duration) error {
	return c.settle(ctx, job, "extend", map[string]any{"lease": lease.Seconds()})
}

func (c *Client) settle(ctx context.Context, job Job, verb string, with map[string]any) error {
	with["token"] = job.Token
	return c.call(ctx, http.MethodPost, "jobs/"+url.PathEscape(job.ID)+"/"+verb, with, nil)
}

func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	address := c.Base + "/api/v1/queues/" + url.PathEscape(c.Queue) + "/" + path
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		// A proxy may answer with something else: that it is down, too slow, or asked too often.
		again := response.StatusCode >= 500 || response.StatusCode == http.StatusRequestTimeout ||
			response.StatusCode == http.StatusTooManyRequests
		refused := Error{Kind: "internal", Message: string(text), Transient: again}
		_ = json.Unmarshal(text, &struct {
			Error *Error `json:"error"`
		}{&refused})
		refused.Status = response.StatusCode
		return &refused
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// Work runs jobs with handle, atOnce of them, until ctx ends; those that have begun end then. A handler that returns an error
// fails its job; its context ends when the lease is lost, or the job's timeout is over.
func (c *Client) Work(ctx context.Context, atOnce int, handle func(context.Context, Job) error) {
	const lease = 30 * time.Second
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for ctx.Err() == nil {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		// A request that is cut off leaves no job reserved.
		jobs, err := c.Reserve(ctx, 1, 20*time.Second, lease)
		if err != nil || len(jobs) == 0 {
			<-free
			if err != nil && ctx.Err() == nil {
				log.Printf("reserve: %v", err)
				time.Sleep(time.Second)
			}
			continue
		}
		running.Add(1)
		go func() {
			defer func() { <-free; running.Done() }()
			c.run(jobs[0], lease, handle)
		}()
	}
	running.Wait()
}

// run does not end with the context of Work: a job that has begun is settled, if need be again and again until its lease has ended.
func (c *Client) run(job Job, lease time.Duration, handle func(context.Context, Job) error) {
	ctx, stop := context.WithCancel(context.Background())
	if job.Timeout > 0 {
		ctx, stop = context.WithTimeout(context.Background(), time.Duration(job.Timeout*float64(time.Second)))
	}
	renewed, ends := make(chan struct{}), time.Now().Add(lease)
	go func() {
		defer close(renewed)
		every := time.NewTicker(lease / 3)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				asked := time.Now()
				if err := c.Extend(ctx, job, lease); err == nil {
					ends = asked.Add(lease)
				} else if IsLeaseLost(err) {
					stop()
				}
			}
		}
	}()
	failed := handle(ctx, job)
	stop()
	<-renewed
	settle := func() error {
		if failed != nil {
			return c.Fail(context.Background(), job, failed.Error())
		}
		return c.Ack(context.Background(), job, nil)
	}
	err := settle()
	// What had no answer may be done: then the second one is lease_lost, and changes nothing.
	for IsTransient(err) && time.Now().Before(ends) {
		time.Sleep(time.Second)
		err = settle()
	}
	if err != nil {
		log.Printf("job %s: %v", job.ID, err)
	}
}

func main() {
	queue := os.Getenv("DULY_QUEUE")
	if queue == "" {
		queue = "orders"
	}
	client := NewClient(os.Getenv("DULY_API"), os.Getenv("DULY_API_TOKEN"), queue)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case len(os.Args) == 2 && os.Args[1] == "produce":
		for order := 42; order < 45; order++ {
			job := NewJob{Data: map[string]int{"order_id": order}, Name: "order.close", ID: fmt.Sprintf("close-%d", order), OnDuplicate: "keep"}
			id, err := client.Push(ctx, job)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("pushed", id)
		}
	case len(os.Args) == 2 && os.Args[1] == "work":
		client.Work(ctx, 4, func(_ context.Context, job Job) error {
			var order struct {
				ID int `json:"order_id"`
			}
			if err := json.Unmarshal(job.Data, &order); err != nil {
				return err
			}
			fmt.Println("closed order", order.ID)
			return nil
		})
	default:
		log.Fatal("usage: go run duly.go produce|work")
	}
}
