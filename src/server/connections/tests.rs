use std::thread::sleep;

use super::*;

fn add(connections: &Connections, most: usize) -> Option<Arc<Connection>> {
    // So that each of them has waited for longer than the next one.
    sleep(Duration::from_millis(2));
    connections.add(most)
}

fn is_open(connections: &Connections, connection: &Arc<Connection>) -> bool {
    connections.open.lock().iter().any(|open| open.ptr_eq(&Arc::downgrade(connection)))
}

/// A connection that had a response and is idle.
fn served(connections: &Connections, most: usize) -> Arc<Connection> {
    let connection = add(connections, most).unwrap();
    drop(connection.begin());
    connection
}

/// A connection with a request whose body does not arrive.
fn stalled(connections: &Connections, most: usize) -> (Arc<Connection>, Arc<InFlight>) {
    let connection = add(connections, most).unwrap();
    let request = connection.begin();
    (connection, request)
}

#[test]
fn the_connection_that_has_waited_for_its_client_for_longest_makes_room() {
    let connections = Connections::default();
    let stalled: Vec<_> = (0..4).map(|_| stalled(&connections, 4)).collect();
    let first = served(&connections, 4);
    let second = served(&connections, 4);
    let open: Vec<bool> = stalled.iter().map(|(connection, _)| is_open(&connections, connection)).collect();
    assert_eq!(open, [false, false, true, true]);
    assert!(is_open(&connections, &first) && is_open(&connections, &second));
}

#[test]
fn clients_that_have_just_begun_make_room_for_each_other_while_few_connections_are_idle() {
    let connections = Connections::default();
    let idle = served(&connections, 3);
    let silent = add(&connections, 3).unwrap();
    let (stalled, _request) = stalled(&connections, 3);
    let _fourth = add(&connections, 3).unwrap();
    assert!(
        !is_open(&connections, &silent) && is_open(&connections, &idle) && is_open(&connections, &stalled)
    );
}

#[test]
fn idle_connections_make_room_where_they_are_most() {
    let connections = Connections::default();
    let (first, second) = (served(&connections, 3), served(&connections, 3));
    let silent = add(&connections, 3).unwrap();
    let fourth = served(&connections, 3);
    assert!(
        !is_open(&connections, &first)
            && is_open(&connections, &second)
            && is_open(&connections, &silent)
            && is_open(&connections, &fourth)
    );
    sleep(STALLED);
    let _fifth = add(&connections, 3).unwrap();
    assert!(
        !is_open(&connections, &silent) && is_open(&connections, &second),
        "a client that stalls goes first"
    );
}

#[test]
fn a_review_that_waits_for_memory_for_its_response_stays() {
    let connections = Connections::default();
    let (connection, request) = stalled(&connections, 1);
    request.waits_for_server();
    let mut waiting = std::pin::pin!(request.pause(std::future::pending::<()>()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert!(add(&connections, 1).is_none());
    assert!(is_open(&connections, &connection));
}

#[test]
fn a_connection_whose_request_waits_for_the_server_stays() {
    let connections = Connections::default();
    let (first, request) = stalled(&connections, 2);
    let (second, other) = stalled(&connections, 2);
    request.waits_for_server();
    other.waits_for_server();
    assert!(add(&connections, 2).is_none());
    request.waits_for_client();
    assert!(add(&connections, 2).is_some());
    assert!(!is_open(&connections, &first) && is_open(&connections, &second));
}

#[test]
fn only_connections_whose_client_takes_long_are_evicted_for_memory() {
    let connections = Connections::default();
    let (sending, _first) = stalled(&connections, 8);
    let (working, request) = stalled(&connections, 8);
    request.waits_for_server();
    let (new, idle) = (add(&connections, 8).unwrap(), served(&connections, 8));
    connections.evict_stalled();
    assert!(is_open(&connections, &sending), "it has not taken long");
    sleep(STALLED);
    let (recent, _second) = stalled(&connections, 8);
    connections.evict_stalled();
    assert!(!is_open(&connections, &sending));
    assert!([&working, &new, &idle, &recent].into_iter().all(|one| is_open(&connections, one)));
}

#[test]
fn a_body_that_arrives_fast_keeps_its_memory() {
    let connections = Connections::default();
    let ((fast, request), (slow, _other)) = (stalled(&connections, 2), stalled(&connections, 2));
    request.has_received(1 << 20);
    sleep(STALLED);
    connections.evict_stalled();
    assert!(is_open(&connections, &fast) && !is_open(&connections, &slow));
    // The next transfer on the connection begins anew.
    request.waits_for_client();
    sleep(STALLED);
    connections.evict_stalled();
    assert!(!is_open(&connections, &fast));
}

#[test]
fn connections_that_have_ended_are_forgotten_and_take_no_place() {
    let connections = Connections::default();
    for _ in 0..100 {
        drop(add(&connections, 2).unwrap());
    }
    let kept = [add(&connections, 2).unwrap(), add(&connections, 2).unwrap()];
    assert!(kept.iter().all(|one| is_open(&connections, one)));
    assert_eq!(connections.open.lock().len(), 2);
}
